// The list of resources, and one resource with its copies, holders, versions and diff.
import { html, Component, num, bytes, plural, links, query, typeName } from './lib.js';
import { Load } from './fetch.js';
import { View, Badge, Table, Facts, Code, pretty } from './parts.js';
import { live } from './live.js';
import { GroupLink, groupName } from './map.js';
import { Diff, lines } from './diff.js';
import { ClientRows } from './clients.js';
import { Versions } from './versions.js';

const state = (r) => {
  if (r.absent) return ['warn', 'does not exist'];
  if (r.held) return ['warn', 'removal held'];
  return r.live ? ['good', 'live'] : ['bad', 'stale'];
};

const columns = [
  { head: 'Name', sort: (r) => r.name, cell: (r) => html`<a href=${links.resource(r)}>${r.name}</a>` },
  { head: 'Type', sort: typeName, cell: typeName },
  { head: 'State', sort: (r) => state(r)[1], cell: (r) => { const [s, text] = state(r); return html`<${Badge} state=${s}>${text}<//>${r.fallback && html` <${Badge} state="warn">fallback<//>`}${r.shadowed && html` <${Badge} state="warn">shadowed<//>`}`; } },
  { head: 'Origin', sort: (r) => r.origin, cell: (r) => html`<a href=${links.origin(r.origin)}>${r.origin}</a>` },
  { head: 'Group', sort: (r) => groupName(r.origin, r.group), cell: (r) => html`<${GroupLink} origin=${r.origin} group=${r.group} />` },
  { head: 'Variant', sort: (r) => r.constraints || r.parameters?.join(), cell: (r) => r.constraints || r.parameters?.join(', ') },
  { head: 'Version', minor: true, sort: (r) => r.origin_version || r.version, cell: (r) => html`<code class="clip">${r.origin_version || r.version}</code>` },
  { head: 'Bytes', num: true, minor: true, sort: (r) => !r.secret && r.bytes, cell: (r) => !r.secret && bytes(r.bytes) },
  { head: 'Clients', num: true, sort: (r) => r.clients, cell: (r) => num(r.clients) },
];

// distinct counts the resources that copies are of.
const distinct = (all) => new Set(all.map((r) => `${r.origin} ${r.type} ${r.name}`)).size;

export function Resources({ filter }) {
  const { q, limit, ...rest } = filter;
  const set = (change) => { location.hash = links.resources({ ...filter, ...change }); };
  const match = q ? (q.includes('*') ? q : `*${q}*`) : '';
  const path = `/resources${query({ ...rest, match, limit: limit || 100 })}`;
  return html`<${View} name="resources" title="Resources" json=${path}>
    <form class="filter" role="search" aria-label="Filter" onSubmit=${(e) => e.preventDefault()}>
      <label>Name<input name="q" value=${q ?? ''} placeholder="a part of it, * for some" onInput=${(e) => set({ q: e.target.value })} /></label>
      <label>Origin<select name="origin" onChange=${(e) => set({ origin: e.target.value })}><option value="">any</option>
        ${(live.overview?.origins ?? []).map((o) => html`<option key=${o.name} value=${o.name} selected=${rest.origin === o.name}>${o.name}</option>`)}</select></label>
      <label>Type<select name="type" onChange=${(e) => set({ type: e.target.value })}><option value="">any</option>
        ${['lds', 'rds', 'cds', 'eds', 'sds', 'vhds', 'srds', 'ecds', 'rtds'].map((t) => html`<option key=${t} value=${t} selected=${rest.type === t}>${t}</option>`)}</select></label>
      ${rest.group && html`<label>Group<input name="group" value=${rest.group} onChange=${(e) => set({ group: e.target.value })} /></label>`}
      ${query(filter) && html`<a href="#/resources">Clear</a>`}
    </form>
    <${Load} path=${path} every=${5000}>${(d) => html`
      <${Table} label="Resources" rows=${d.resources} columns=${columns} empty="No resource is like that." href=${links.resource}
        attrs=${(r) => ({ key: [r.origin, r.group, r.type, r.name, r.collection, r.constraints, r.wildcard].join(' '), 'data-resource': r.name })} />
      <div class="paging"><span class="dim">${plural(distinct(d.resources), 'resource')}${distinct(d.resources) < d.resources.length && ` in ${plural(d.resources.length, 'copy', 'copies')}`}${d.truncated && ', and more'}${d.truncated_by && `: ${d.truncated_by}`}</span>
        ${d.truncated && html`<button class="quiet" onClick=${() => set({ limit: 5 * (Number(limit) || 100) })}>More</button>`}</div>`}<//>
  <//>`;
}

// copyName says which of the copies it is.
const copyName = (r) => [groupName(r.origin, r.group), r.constraints || r.parameters?.join(', ')].filter(Boolean).join(' · ');

// Copies are the same name as groups and parameter maps have it; two can be compared.
class Copies extends Component {
  constructor(props) {
    super(props);
    this.state = { at: 0, with: -1 };
  }
  render({ all, group }, s) {
    const order = [...all].sort((x, y) => (y.group === group) - (x.group === group));
    const r = order[Math.min(s.at, order.length - 1)];
    const other = order[s.with];
    const bodyOf = (x) => (x.secret ? 'Secrets are not shown.' : x.absent ? 'The origin states that it does not exist.' : x.body ? pretty(x.body) : 'It is not kept.');
    const [kind, text] = state(r);
    return html`<section class="panel" data-variant=${r.group}>
      <h3>${all.length > 1 ? plural(all.length, 'copy', 'copies') : 'Content'}</h3>
      ${all.length > 1 && html`<form class="filter" aria-label="Copy">
        <label>Show<select name="variant" onChange=${(e) => this.setState({ at: Number(e.target.value) })}>${order.map((x, i) => html`<option key=${i} value=${i} selected=${i === s.at}>${copyName(x)}</option>`)}</select></label>
        <label>Compare with<select name="compare" onChange=${(e) => this.setState({ with: Number(e.target.value) })}><option value="-1">nothing</option>
          ${order.map((x, i) => html`<option key=${i} value=${i} selected=${i === s.with}>${copyName(x)}</option>`)}</select></label>
      </form>`}
      <${Facts} of=${[
    ['State', html`<${Badge} state=${kind}>${text}<//>`], ['Version', html`<code>${r.version}</code>`], ["Origin's version", r.origin_version && html`<code>${r.origin_version}</code>`],
    ['Source', r.source], ['Size', !r.secret && bytes(r.bytes)], ['Clients', num(r.clients)], ['Held as', r.wildcard ? 'a member of the whole list' : r.collection ? `a member of ${r.collection}` : 'a name'],
    ['Constraints', r.constraints], ['Parameters', r.parameters?.join(', ')],
  ]} />
      ${other && other !== r ? html`<${Diff} text=${lines(bodyOf(other), bodyOf(r))} empty="They are the same." />` : html`<${Code} text=${bodyOf(r)} cls="body" />`}
    </section>`;
  }
}

export function Resource({ of }) {
  const { origin, group, type, name } = of;
  const path = `/resources${query({ origin, type, name })}`;
  return html`<${View} name="resource" title=${name} sub=${html`${type} of <a href=${links.origin(origin)}>${origin}</a>`} json=${path}
      back=${{ href: links.resources({ origin, type }), text: 'Resources' }}>
    <${Load} path=${path} every=${3000}>${(d) => {
    if (!d.resources.length) return html`<p class="note">Nothing of that name is held: no client asks for it, or the origin has not sent it.</p>`;
    const first = d.resources.find((r) => r.group === group) ?? d.resources[0];
    return html`<${Copies} all=${d.resources} group=${group} />
      <${Versions} origin=${origin} group=${first.group} type=${type} name=${name} />
      <section class="panel"><h3>Holders</h3>
        <p class="dim">Clients of the group that ask for ${type}; ${plural(first.clients, 'client')} ${first.clients === 1 ? 'asks' : 'ask'} for this one. <a href=${`#/clients?${new URLSearchParams({ origin, type })}`}>Those of all groups</a></p>
        <${ClientRows} filter=${{ origin, group: first.group, type }} size=${25} /></section>`;
  }}<//>
  <//>`;
}

