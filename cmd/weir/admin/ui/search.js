// The search in the bar: origins, groups, clients, and resources by a part of their name.
import { html, Component, links, query, plural, typeName } from './lib.js';
import { live } from './live.js';
import { getJSON } from './fetch.js';

const most = 6; // of each kind
const pause = 150; // milliseconds after the last key

// near are the origins and groups with the text; the page has them already.
function near(text) {
  const found = [];
  const has = (t) => t?.toLowerCase().includes(text.toLowerCase());
  for (const o of live.overview?.origins ?? []) {
    if (has(o.name)) found.push({ kind: 'origin', name: o.name, more: o.source, href: links.origin(o.name) });
    for (const g of o.worst_groups) {
      if (has(g.node_id) || has(g.node_cluster) || has(g.key)) {
        found.push({ kind: 'group', name: g.node_cluster || g.node_id || g.key, more: `${o.name}, ${plural(g.clients, 'client')}`, href: links.group(o.name, g.key) });
      }
    }
  }
  return found.slice(0, 2 * most);
}

async function far(text, signal) {
  const match = `*${text}*`;
  const [clients, resources] = await Promise.allSettled([
    getJSON(`/clients${query({ node: match, limit: most })}`, { signal }),
    getJSON(`/resources${query({ match, limit: 60 })}`, { signal }),
  ]);
  const found = (clients.value?.clients ?? []).map((c) => ({ kind: 'client', name: c.node_id || c.peer, more: c.synced ? c.peer : 'not in sync', href: links.client(c.node_id) }));
  const names = new Map(); // a resource once, though each group has it
  for (const r of resources.value?.resources ?? []) {
    const key = `${r.origin} ${r.type} ${r.name}`;
    if (names.has(key)) names.get(key).n += 1;
    else names.set(key, { r, n: 1 });
  }
  for (const { r, n } of [...names.values()].slice(0, most)) {
    found.push({ kind: typeName(r), name: r.name, more: n > 1 ? `${r.origin}, ${n} times` : r.origin, href: links.resource({ ...r, group: '' }) });
  }
  return found;
}

export class Search extends Component {
  constructor(props) {
    super(props);
    this.state = { text: '', found: [], at: 0, open: false, busy: false };
  }
  componentDidMount() {
    addEventListener('click', (e) => !e.target.closest('#finder') && this.setState({ open: false }));
  }
  type(text) {
    clearTimeout(this.timer);
    this.abort?.abort();
    const asked = text.trim();
    this.setState({ text, at: 0, open: Boolean(asked), found: asked ? near(asked) : [], busy: Boolean(asked) });
    if (asked) this.timer = setTimeout(() => this.look(asked), pause);
  }
  async look(text) {
    this.abort = new AbortController();
    const { signal } = this.abort;
    const found = await far(text, signal);
    if (!signal.aborted) this.setState({ found: [...near(text), ...found], busy: false });
  }
  open(item) {
    if (!item) return;
    this.setState({ open: false, text: '', found: [] });
    document.getElementById('search').blur();
    location.hash = item.href;
  }
  async key(event) {
    const { found, at } = this.state;
    switch (event.key) {
      case 'ArrowDown': this.setState({ at: Math.min(at + 1, found.length - 1) }); break;
      case 'ArrowUp': this.setState({ at: Math.max(at - 1, 0) }); break;
      case 'Enter':
        if (this.state.busy) { // asked before the answer is there
          clearTimeout(this.timer);
          await this.look(this.state.text.trim());
        }
        this.open(this.state.found[this.state.at]);
        break;
      case 'Escape': this.setState({ open: false, text: '', found: [] }); event.target.blur(); break;
      default: return;
    }
    event.preventDefault();
  }
  render(_, { text, found, at, open, busy }) {
    return html`<input type="search" id="search" placeholder="Search" aria-label="Search clients, groups, origins and resources" autocomplete="off" spellcheck="false"
        role="combobox" aria-expanded=${open} aria-controls="results" aria-activedescendant=${open && found[at] ? `result-${at}` : undefined}
        value=${text} onInput=${(e) => this.type(e.target.value)} onKeyDown=${(e) => this.key(e)} onFocus=${() => text && this.setState({ open: true })} />
      <kbd class="hint" aria-hidden="true">/</kbd>
      <ul id="results" role="listbox" aria-label="Found" hidden=${!open}>
        ${found.map((f, i) => html`<li key=${f.href} id=${`result-${i}`} role="option" aria-selected=${i === at} onClick=${() => this.open(f)} onMouseEnter=${() => this.setState({ at: i })}>
          <span class="kind">${f.kind}</span><span class="what">${f.name}</span><span class="more">${f.more}</span></li>`)}
        ${open && !found.length && html`<li class="none" role="presentation">${busy ? 'Searching' : 'Nothing has that in its name'}</li>`}
      </ul>`;
  }
}
