// The list of clients, and one client with its streams and why it has what it has.
import { html, Component, Ago, num, plural, links, query, enc, typeOf, typeName } from './lib.js';
import { Load } from './fetch.js';
import { View, Badge, Table, Facts, Peer } from './parts.js';
import { Why } from './why.js';
import { live } from './live.js';
import { GroupLink, groupName } from './map.js';

const isType = (t, type) => !type || t.type === type || t.type_url === type;

// of has the clients with their types of a list: of a type, those alone decide on the state.
const of = (clients, type) => clients.map((c) => ({ ...c, types: c.types.filter((t) => isType(t, type)) }));

const unsyncedSince = (c) => c.types.map((t) => t.unsynced_since).filter(Boolean).sort()[0];
const rejected = (c) => c.types.find((t) => t.nacking);

export const clientState = (c) => {
  if (rejected(c)) return ['bad', 'rejects'];
  return unsyncedSince(c) ? ['warn', 'not in sync'] : ['good', 'in sync'];
};

const states = { bad: 0, warn: 1, good: 2 };
const age = (t) => (t ? -Date.parse(t) : '');

// waits are why a type of a client waits, in the words of the closed list.
export const waits = (t) => (t.waits ?? []).map((w) => html`<${Badge} key=${w.reason} state="warn">${w.reason.replaceAll('_', ' ')} <${Ago} at=${w.since} suffix=${false} /><//> `);

const columns = [
  { head: 'Client', sort: (c) => c.node_id || c.peer, cell: (c) => html`<a href=${links.client(c.node_id)}>${c.node_id || html`<span class="dim">no node id</span>`}</a>` },
  { head: 'State', sort: (c) => states[clientState(c)[0]], cell: (c) => { const [s, text] = clientState(c); return html`<${Badge} state=${s}>${text}<//>`; } },
  { head: 'For', num: true, sort: (c) => age(unsyncedSince(c)), cell: (c) => unsyncedSince(c) && html`<${Ago} at=${unsyncedSince(c)} suffix=${false} />` },
  { head: 'What', wide: true, sort: (c) => rejected(c)?.rejected?.message ?? c.types.map(typeName).join(), cell: (c) => {
    const r = rejected(c);
    if (r) return html`<span class="clip" title=${r.rejected?.message}><b>${typeName(r)}</b> ${r.rejected?.message}</span>`;
    const behind = c.types.filter((t) => t.unsynced_since);
    return behind.length ? html`${behind.map((t) => html`<span key=${t.type}><b>${typeName(t)}</b> ${waits(t)} </span>`)}`
      : html`<span class="dim">${c.types.map(typeName).join(', ')}</span>`;
  } },
  { head: 'Origin', sort: (c) => c.origin, cell: (c) => html`<a href=${links.origin(c.origin)}>${c.origin}</a>` },
  { head: 'Group', sort: (c) => `${c.origin} ${groupName(c.origin, c.group)}`, cell: (c) => html`<${GroupLink} origin=${c.origin} group=${c.group} />` },
  { head: 'Peer', minor: true, sort: (c) => c.peer, cell: (c) => html`<${Peer} at=${c.peer} />` },
  { head: 'Since', num: true, minor: true, sort: (c) => age(c.since), cell: (c) => html`<${Ago} at=${c.since} suffix=${false} />` },
];

// mostSorted is how many rows are fetched to be sorted by a column.
const mostSorted = 1000;

// ClientRows are the clients of a filter, page by page. Pages are kept by where they begin, so that
// the way back is there.
export class ClientRows extends Component {
  constructor(props) {
    super(props);
    this.state = { pages: [''], sorted: false };
  }
  componentDidUpdate(before) {
    if (query(before.filter) !== query(this.props.filter) && this.state.pages.length > 1) this.setState({ pages: [''] });
  }
  render({ filter, size = 100 }, { pages, sorted }) {
    const after = sorted ? '' : pages.at(-1);
    const path = `/clients${query({ ...filter, limit: sorted ? Math.max(size, mostSorted) : size, after })}`;
    return html`<${Load} path=${path} every=${sorted ? 10000 : 3000}>${(d) => html`
      <${Table} label="Clients" rows=${of(d.clients, filter.type)} onSort=${(on) => this.setState({ sorted: on })} columns=${columns} empty="No client is like that."
        attrs=${(c) => ({ key: c.stream, 'data-node': c.node_id, 'data-state': clientState(c)[0] })} href=${(c) => links.client(c.node_id)} />
      <div class="paging">
        ${sorted && d.next ? html`<span class="dim">Sorted among the first ${num(d.clients.length)} of ${plural(d.total, 'client stream')}, the worst ones. Filter to narrow the list.</span>` : html`
        <span class="dim num">${d.clients.length && !sorted && `${num((pages.length - 1) * size + 1)} to ${num((pages.length - 1) * size + d.clients.length)} of `}${plural(d.total, 'client stream')}</span>`}
        ${!sorted && pages.length > 1 && html`<button class="quiet" onClick=${() => this.setState({ pages: pages.slice(0, -1) })}>Back</button>`}
        ${!sorted && d.next && html`<button class="quiet" onClick=${() => this.setState({ pages: [...pages, d.next] })}>Next</button>`}
        ${d.truncated && !d.next && html`<a href=${links.clients({ ...filter, limit: d.total })}>Show all</a>`}
      </div>`}<//>`;
  }
}

// Filter is the form above the list. It is in the address, so that it can be sent to others.
function Filter({ filter }) {
  const set = (change) => { location.hash = links.clients({ ...filter, ...change }); };
  const text = (name, label) => html`<label>${label}<input name=${name} value=${filter[name] ?? ''} onChange=${(e) => set({ [name]: e.target.value })} placeholder="any, * for some" /></label>`;
  const flag = (name, label) => html`<label class="check"><input type="checkbox" name=${name} checked=${Boolean(filter[name])} onChange=${(e) => set({ [name]: e.target.checked ? 1 : '' })} />${label}</label>`;
  const choice = (name, label, all) => html`<label>${label}<select name=${name} onChange=${(e) => set({ [name]: e.target.value })}>
    <option value="">any</option>${all.map((v) => html`<option key=${v} value=${v} selected=${filter[name] === v}>${v}</option>`)}</select></label>`;
  const origins = (live.overview?.origins ?? []).map((o) => o.name);
  return html`<form class="filter" role="search" aria-label="Filter" onSubmit=${(e) => e.preventDefault()}>
    ${flag('unsynced', 'Not in sync')}${flag('nacking', 'Rejecting')}
    ${choice('origin', 'Origin', origins)}${choice('type', 'Type', ['lds', 'rds', 'cds', 'eds', 'sds', 'vhds', 'srds', 'ecds', 'rtds'])}
    ${choice('older', 'Behind for', ['5s', '30s', '1m', '5m', '15m', '1h'])}
    ${text('node', 'Node id')}${text('identity', 'Identity')}
    ${filter.group && html`<label>Group<input name="group" value=${filter.group} onChange=${(e) => set({ group: e.target.value })} /></label>`}
    ${query(filter) && html`<a href="#/clients">Clear</a>`}
  </form>`;
}

export function Clients({ filter }) {
  const { limit, ...rest } = filter;
  return html`<${View} name="clients" title="Clients" sub="Worst first: who rejects, then who has been behind for longest." json=${`/clients${query(rest)}`}>
    <${Filter} filter=${rest} />
    <${ClientRows} filter=${rest} size=${Number(limit) || 50} />
  <//>`;
}

// Stream is one stream of a client: its types, and why.
function Stream({ c }) {
  const [state, text] = clientState(c);
  return html`<section class="panel" data-stream=${c.stream} data-state=${state}>
    <h3>Stream ${c.stream} <${Badge} state=${state}>${text}<//></h3>
    <${Facts} of=${[
    ['Peer', html`<${Peer} at=${c.peer} />`], ['Since', html`<${Ago} at=${c.since} />`], ['Cluster', c.node_cluster], ['Identity', c.identity], ['Dialect', c.dialect],
    ['Origin', html`<a href=${links.origin(c.origin)}>${c.origin}</a>`], ['Group', html`<${GroupLink} origin=${c.origin} group=${c.group} />`],
    ['Waits', c.waits?.length > 0 && waits(c)], ['Dedicated groups', c.dedicated_groups?.join(', ')], ['Parameter sets', c.parameter_sets],
  ]} />
    <${Table} label="Types" rows=${c.types} attrs=${(t) => ({ key: t.type_url })} empty="It has asked for nothing yet." columns=${[
    { head: 'Type', sort: typeName, cell: (t) => html`<a href=${links.resources({ origin: c.origin, group: c.group, type: typeOf(t) })}>${typeName(t)}</a>` },
    { head: 'State', sort: (t) => (t.nacking ? 0 : t.unsynced_since ? 1 : 2), cell: (t) => (t.nacking ? html`<${Badge} state="bad">rejects<//>` : t.unsynced_since ? html`<${Badge} state="warn">behind <${Ago} at=${t.unsynced_since} suffix=${false} /><//>` : html`<${Badge} state="good">in sync<//>`) },
    { head: 'Asks', sort: (t) => (t.wildcard ? Infinity : t.names), cell: (t) => [t.wildcard && 'all', t.names > 0 && `${num(t.names)} by name`].filter(Boolean).join(' and ') || 'nothing' },
    { head: 'Responses', num: true, sort: (t) => t.responses, cell: (t) => num(t.responses) },
    { head: 'NACKs', num: true, sort: (t) => t.nacks, cell: (t) => num(t.nacks) },
    { head: 'Waits', wide: true, sort: (t) => t.waits?.[0]?.reason, cell: (t) => (t.waits?.length || t.in_flight_since || t.refused_names || t.origins) && html`${waits(t)}${t.in_flight_since && html`<span class="dim">sent <${Ago} at=${t.in_flight_since} />, not answered </span>`}
        ${t.refused_names > 0 && html`<span class="dim">${num(t.refused_names)} names refused </span>`}
        ${t.origins?.map((p) => html`<span key=${p.origin + p.group + p.parameters} class="dim">${p.origin}${p.parameters && ` with ${p.parameters}`} </span>`)}` },
    { head: 'Version', sort: (t) => t.acked_version, cell: (t) => (t.acked_version || t.sent_version) && html`<code class="clip">${t.acked_version}</code>${t.sent_version && t.sent_version !== t.acked_version && html` <span class="dim">sent ${t.sent_version}</span>`}` },
  ]} />
    ${c.types.filter((t) => t.rejected).map((t) => html`<p key=${t.type_url} class="note is-bad reason" data-reason><b>${typeName(t)}</b> <${Ago} at=${t.rejected.at} />: ${t.rejected.message}</p>`)}
  </section>`;
}

export function Client({ node }) {
  return html`<${View} name="client" title=${node} json=${`/clients?node=${enc(node)}&full=true`} back=${{ href: '#/clients', text: 'Clients' }}>
    <${Load} path=${`/clients${query({ node, full: 'true' })}`} every=${2000}>${(d) => {
    const streams = d.clients.filter((c) => c.node_id === node);
    if (!streams.length) {
      return html`<p class="note">No stream of this client is open. Its rejections are in the <a href="#/nacks">NACK book</a>.</p>`;
    }
    return html`${streams.map((c) => html`<${Stream} key=${c.stream} c=${c} />`)}
      <${Why} node=${node} types=${[...new Set(streams.flatMap((c) => c.types.map(typeOf)))]}
        first=${streams.flatMap((c) => c.types).filter((t) => t.nacking || t.unsynced_since).map(typeOf)[0]} />`;
  }}<//>
  <//>`;
}
