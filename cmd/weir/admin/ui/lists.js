// The lists of origins and of groups.
import { html, Component, Ago, num, plural, links, query, isTime } from './lib.js';
import { getJSON } from './fetch.js';
import { View, Badge, Table } from './parts.js';
import { live, Watching } from './live.js';
import { originState, groupState, groupWords, nameOf, Chips, GroupLink } from './map.js';

const time = (t) => (isTime(t) ? Date.parse(t) : '');
const loading = html`<p class="note dim" aria-busy="true">Loading</p>`;
const states = { good: 0, warn: 1, bad: 2 };

// of is a number of all groups of an origin, those that are left out of the overview being well.
const of = (o, what) => o.worst_groups.reduce((n, g) => n + g[what], 0);

const originColumns = [
  { head: 'Origin', sort: (o) => o.name, cell: (o) => html`<a href=${links.origin(o.name)}>${o.name}</a>` },
  { head: 'State', sort: (o) => states[o.state], cell: (o) => html`<${Badge} state=${o.connected ? 'good' : o.state}>${originState(o)}<//>` },
  { head: 'For', num: true, sort: (o) => -time(o.since) || '', cell: (o) => isTime(o.since) && html`<${Ago} at=${o.since} suffix=${false} />` },
  { head: 'Source', minor: true, sort: (o) => `${o.kind} ${o.source}`, cell: (o) => html`${o.kind} <span class="dim">${o.source}</span>` },
  { head: 'Groups', num: true, sort: (o) => o.groups, cell: (o) => html`<a href=${`#/groups${query({ origin: o.name })}`}>${num(o.groups)}</a>` },
  { head: 'Clients', num: true, sort: (o) => o.clients, cell: (o) => html`<a href=${links.clients({ origin: o.name })}>${num(o.clients)}</a>` },
  { head: 'Resources', num: true, sort: (o) => o.resources, cell: (o) => html`<a href=${links.resources({ origin: o.name })}>${num(o.resources)}</a>` },
  { head: 'Trouble', wide: true, sort: (o) => states[o.state], cell: (o) => o.state !== 'good' && html`<span class="chips"><${Chips} o=${o} />
    ${of(o, 'nacking') > 0 && html`<${Badge} state="bad">${plural(of(o, 'nacking'), 'client')} rejecting<//>`}
    ${of(o, 'unsynced') > of(o, 'nacking') && html`<${Badge} state="warn">${num(of(o, 'unsynced') - of(o, 'nacking'))} behind<//>`}</span>` },
  { head: 'Streams', num: true, minor: true, sort: (o) => o.streams, cell: (o) => num(o.streams) },
  { head: 'Last change', num: true, sort: (o) => -time(o.last_update) || '', cell: (o) => isTime(o.last_update) && html`<${Ago} at=${o.last_update} />` },
  { head: 'Last error', wide: true, sort: (o) => o.error, cell: (o) => o.error && html`<span class="clip" title=${o.error}>${o.error}</span>` },
];

export class Origins extends Watching {
  render() {
    const o = live.overview;
    return html`<${View} name="origins" title="Origins" json="/origins" sub="The sources that weir asks on behalf of clients.">
      ${!o ? loading : html`<${Table} label="Origins" rows=${o.origins} columns=${originColumns} empty="No origin is configured."
        attrs=${(x) => ({ key: x.name, 'data-origin': x.name, 'data-state': x.state })} href=${(x) => links.origin(x.name)} />`}
    <//>`;
  }
}

const groupColumns = [
  { head: 'Group', sort: (g) => g.name, cell: (g) => html`<${GroupLink} origin=${g.origin} group=${g.key} text=${g.name} />` },
  { head: 'State', sort: (g) => (g.unknown ? '' : states[groupState(g)]), cell: (g) => !g.unknown && html`<${Badge} state=${groupState(g)}>${groupWords(g)}<//>` },
  { head: 'For', num: true, sort: (g) => -time(g.since) || '', cell: (g) => isTime(g.since) && html`<${Ago} at=${g.since} suffix=${false} />` },
  { head: 'Origin', sort: (g) => g.origin, cell: (g) => html`<a href=${links.origin(g.origin)}>${g.origin}</a>` },
  { head: 'Clients', num: true, sort: (g) => g.clients, cell: (g) => html`<a href=${links.clients({ origin: g.origin, group: g.key })}>${num(g.clients)}</a>` },
  { head: 'Behind', num: true, sort: (g) => g.unsynced - g.nacking, cell: (g) => g.unsynced > g.nacking && num(g.unsynced - g.nacking) },
  { head: 'Rejecting', num: true, sort: (g) => g.nacking, cell: (g) => g.nacking > 0 && html`<a href=${links.clients({ origin: g.origin, group: g.key, nacking: 1 })}>${num(g.nacking)}</a>` },
  { head: 'Identity', sort: (g) => g.identity, cell: (g) => g.identity },
  { head: 'Node presented', minor: true, sort: (g) => g.node_id, cell: (g) => g.node_id && html`<code>${g.node_id}</code>` },
];

// Groups are those of the overview. It leaves some out if there are many, and these have no trouble
// unless all others have: they are loaded when someone asks for them.
class GroupRows extends Component {
  constructor(props) {
    super(props);
    this.state = { all: null, error: '' };
  }
  async load() {
    try {
      this.setState({ all: (await getJSON(`/groups${query({ limit: 100000 })}`)).groups, error: '' });
    } catch (error) {
      this.setState({ error: error.message });
    }
  }
  render({ o, origin }, { all, error }) {
    const origins = o.origins.filter((x) => !origin || x.name === origin);
    const rows = origins.flatMap((x) => x.worst_groups.map((g) => ({ ...g, origin: x.name, name: nameOf(g, x) })));
    const known = new Set(rows.map((g) => `${g.origin} ${g.key}`));
    for (const x of origins) {
      for (const g of all ?? []) {
        if (g.origin === x.name && !known.has(`${g.origin} ${g.key}`)) rows.push({ ...g, unknown: true, name: nameOf(g, x) });
      }
    }
    rows.sort((a, b) => (b.nacking ?? 0) - (a.nacking ?? 0) || (b.unsynced ?? 0) - (a.unsynced ?? 0)); // of all origins
    const more = all ? 0 : origins.reduce((n, x) => n + (x.groups_left_out ?? 0), 0);
    return html`<${Table} label="Groups" rows=${rows} columns=${groupColumns} empty="There is no group: no client has asked yet."
        attrs=${(g) => ({ key: `${g.origin} ${g.key}`, 'data-group': g.key, 'data-state': g.unknown ? undefined : groupState(g) })} href=${(g) => links.group(g.origin, g.key)} />
      <div class="paging"><span class="dim num">${plural(rows.length, 'group')}</span>
        ${more > 0 && html`<button class="quiet" onClick=${() => this.load()}>Load ${num(more)} more</button>`}
        ${error && html`<span class="is-bad note">${error}</span>`}</div>`;
  }
}

export class Groups extends Watching {
  render({ filter: { origin = '' } }) {
    const o = live.overview;
    return html`<${View} name="groups" title="Groups" json=${`/groups${query({ origin })}`}
        sub="Clients that look the same to an origin share a group, and one stream to it. Those with trouble come first.">
      <form class="filter" aria-label="Filter" onSubmit=${(e) => e.preventDefault()}>
        <label>Origin<select name="origin" onChange=${(e) => { location.hash = `#/groups${query({ origin: e.target.value })}`; }}><option value="">any</option>
          ${(o?.origins ?? []).map((x) => html`<option key=${x.name} value=${x.name} selected=${origin === x.name}>${x.name}</option>`)}</select></label>
      </form>
      ${o ? html`<${GroupRows} o=${o} origin=${origin} />` : loading}
    <//>`;
  }
}
