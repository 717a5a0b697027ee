// What changed in the last hours, as a chart and as a list.
import { html, Ago, bytes, links, query, plural, typeName } from './lib.js';
import { Load } from './fetch.js';
import { View, Badge, Table } from './parts.js';
import { live } from './live.js';
import { GroupLink, groupName } from './map.js';
import { Chart } from './chart.js';

const missing = 'This weir keeps no history (cache.history).';
const colours = { added: 'good', changed: 'dim', removed: 'bad' };
const steps = { '15m': '1m', '1h': '1m', '6h': '5m', '24h': '15m' };

// together joins changes that are one to people: the same of a resource, within a minute, in several
// groups. A change that comes again in a group is another one.
function together(changes) {
  const rows = [];
  const last = new Map();
  for (const c of changes) {
    const key = [c.origin, c.type_url, c.name, c.parameters, c.change, c.origin_version, c.was_origin_version ?? c.was_version].join('\n');
    const same = last.get(key);
    if (same && !same.groups.has(c.group) && Math.abs(Date.parse(same.at) - Date.parse(c.at)) < 60000) same.groups.add(c.group);
    else rows.push(last.set(key, { ...c, groups: new Set([c.group]) }).get(key));
  }
  return rows;
}

const columns = [
  { head: 'When', num: true, sort: (c) => -Date.parse(c.at), cell: (c) => html`<${Ago} at=${c.at} />` },
  { head: 'Change', sort: (c) => c.change, cell: (c) => html`<${Badge} state=${colours[c.change]}>${c.change}<//>` },
  { head: 'Type', sort: typeName, cell: typeName },
  { head: 'Name', sort: (c) => c.name, cell: (c) => html`<a href=${links.resource(c)}>${c.name}</a>` },
  { head: 'Origin', sort: (c) => c.origin, cell: (c) => html`<a href=${links.origin(c.origin)}>${c.origin}</a>` },
  { head: 'Group', sort: (c) => groupName(c.origin, c.group), cell: (c) => html`<${GroupLink} origin=${c.origin} group=${c.group} />${c.groups.size > 1 && html` <span class="dim">and ${plural(c.groups.size - 1, 'other')}</span>`}` },
  { head: 'Version', sort: (c) => c.origin_version || c.version, cell: (c) => html`<code class="clip">${c.origin_version || c.version}</code>${c.was_version && html` <span class="dim">was <code class="clip">${c.was_version}</code></span>`}` },
  { head: 'Bytes', num: true, sort: (c) => c.bytes, cell: (c) => c.bytes > 0 && bytes(c.bytes) },
];

export function History({ filter }) {
  const { since = '1h', ...rest } = filter;
  const set = (change) => { location.hash = `#/history${query({ ...filter, ...change })}`; };
  const path = `/history${query({ ...rest, since, limit: 500 })}`;
  return html`<${View} name="history" title="History" sub="What origins changed, the newest first." json=${path}>
    <form class="filter" aria-label="Filter" onSubmit=${(e) => e.preventDefault()}>
      <label>In the last<select name="since" onChange=${(e) => set({ since: e.target.value })}>${Object.keys(steps).map((s) => html`<option key=${s} value=${s} selected=${s === since}>${s}</option>`)}</select></label>
      <label>Origin<select name="origin" onChange=${(e) => set({ origin: e.target.value })}><option value="">any</option>
        ${(live.overview?.origins ?? []).map((o) => html`<option key=${o.name} value=${o.name} selected=${rest.origin === o.name}>${o.name}</option>`)}</select></label>
      <label>Type<select name="type" onChange=${(e) => set({ type: e.target.value })}><option value="">any</option>
        ${['lds', 'rds', 'cds', 'eds', 'sds'].map((t) => html`<option key=${t} value=${t} selected=${rest.type === t}>${t}</option>`)}</select></label>
    </form>
    <${Load} path=${`/history/chart${query({ origin: rest.origin, since, step: steps[since] ?? '1m' })}`} every=${10000} missing="">${(d) => html`
      <${Chart} title="Changes" at=${d.points.map((p) => Date.parse(p.at) / 1000)} bars
        lines=${[['added', 'good', d.points.map((p) => p.added)], ['changed', 'accent', d.points.map((p) => p.changed)], ['removed', 'bad', d.points.map((p) => p.removed)]]} />`}<//>
    <${Load} path=${path} every=${3000} missing=${missing}>${(d) => html`
      ${d.kept?.off && html`<p class="note">${missing}</p>`}
      <${Table} label="Changes" rows=${together(d.changes)} columns=${columns} empty="Nothing has changed in that time." href=${links.resource}
        attrs=${(c) => ({ key: [c.at, c.origin, c.group, c.type_url, c.name, c.parameters].join(' '), 'data-change': c.change })} />
      <p class="dim">${plural(d.changes.length, 'change')}${d.truncated && ', and more'}${d.kept && html`; ${plural(d.kept.versions, 'version')} kept, ${bytes(d.kept.bytes)}`}</p>`}<//>
  <//>`;
}
