// The NACK book: what clients rejected, and why, though they may be gone; and what weir rejected.
import { html, Ago, num, plural, links, query, typeName } from './lib.js';
import { Load } from './fetch.js';
import { View, Badge, Table, Peer } from './parts.js';
import { live, Watching } from './live.js';
import { GroupLink, groupName } from './map.js';

function Entry({ r }) {
  const id = [r.origin, r.type, r.resource ?? '', r.origin_version ?? '', r.message].join(' ');
  const share = r.have_it ? Math.min(r.clients / r.have_it, 1) : 0;
  return html`<article class="entry panel" data-rejection=${id}>
    <div class="entry-head">
      <${Badge} state="bad">${typeName(r)}<//>
      <h3>${r.resource ? html`<a href=${links.resource({ ...r, name: r.resource, group: '' })}>${r.resource}</a>` : 'some resource of a list'}</h3>
      <span class="dim">${r.origin}${r.origin_version && html`, version <code class="clip">${r.origin_version}</code>`}</span>
      <span class="when dim">last <${Ago} at=${r.last} />, first <${Ago} at=${r.first} /></span>
    </div>
    <p class="message">${r.message}</p>
    <div class="entry-foot">
      <span class="share" role="img" aria-label=${`${r.clients} of ${r.have_it}`}><i style=${{ width: `${share * 100}%` }}></i></span>
      <span class="num"><b>${plural(r.clients, 'client')}</b> said so, ${plural(r.count, 'time')}; ${num(r.have_it)} have it now</span>
    </div>
    <ul class="examples" aria-label="Examples">${(r.examples ?? []).map((e) => html`<li key=${e.node_id + e.at}>
      <a href=${links.client(e.node_id)} data-node=${e.node_id} data-href=${links.client(e.node_id)}>${e.node_id || e.peer}</a> <span class="dim num"><${Peer} at=${e.peer} />, <${Ago} at=${e.at} /></span>
      ${e.message !== r.message && html`<p class="own">${e.message}</p>`}</li>`)}</ul>
  </article>`;
}

export class Nacks extends Watching {
  render({ filter }) {
    const set = (change) => { location.hash = `#/nacks${query({ ...filter, ...change })}`; };
    const path = `/nacks/book${query({ ...filter, limit: 100 })}`;
    const n = live.overview?.nacking ?? 0;
    return html`<${View} name="nacks" title="NACK book" json=${`/nacks/book${query(filter)}`}
        sub=${html`What clients rejected, the newest first, though they may be gone. <a href=${links.clients({ nacking: 1 })}>${n === 1 ? '1 client rejects' : `${num(n)} clients reject`} something now</a>.`}>
      <form class="filter" aria-label="Filter" onSubmit=${(e) => e.preventDefault()}>
        <label>Origin<select name="origin" onChange=${(e) => set({ origin: e.target.value })}><option value="">any</option>
          ${(live.overview?.origins ?? []).map((o) => html`<option key=${o.name} value=${o.name} selected=${filter.origin === o.name}>${o.name}</option>`)}</select></label>
        <label>Type<select name="type" onChange=${(e) => set({ type: e.target.value })}><option value="">any</option>
          ${['lds', 'rds', 'cds', 'eds', 'sds'].map((t) => html`<option key=${t} value=${t} selected=${filter.type === t}>${t}</option>`)}</select></label>
      </form>
      <${Load} path=${path} every=${2500}>${(d) => html`
        ${d.book.map((r) => html`<${Entry} key=${r.origin + r.type + r.resource + r.origin_version + r.message} r=${r} />`)}
        ${!d.book.length && html`<p class="note is-good">No client has rejected anything since the start.</p>`}
        ${d.left_out > 0 && html`<p class="dim"><a href=${`/nacks/book${query({ ...filter, limit: d.left_out + 100 })}`}>${num(d.left_out)} older ones</a> in JSON.</p>`}`}<//>
      <${Load} path=${`/nacks${query({ ...filter, limit: 1 })}`} every=${5000}>${(d) => d.origins.length > 0 && html`
        <h3>Rejected by weir</h3>
        <${Table} label="Rejected by weir" rows=${d.origins} attrs=${(r) => ({ key: r.origin + r.group + r.type })} columns=${[
    { head: 'Origin', sort: (r) => r.origin, cell: (r) => html`<a href=${links.origin(r.origin)}>${r.origin}</a>` }, { head: 'Type', sort: (r) => r.type, cell: (r) => r.type },
    { head: 'Group', sort: (r) => r.group && groupName(r.origin, r.group), cell: (r) => r.group && html`<${GroupLink} origin=${r.origin} group=${r.group} />` },
    { head: 'Times', num: true, sort: (r) => r.count, cell: (r) => num(r.count) }, { head: 'Why', wide: true, sort: (r) => r.reason, cell: (r) => r.reason },
  ]} />`}<//>
      <${Denials} />
    <//>`;
  }
}

// Denials are what the rules of authorization kept from clients.
const Denials = () => html`<${Load} path="/authz?limit=50" every=${5000}>${(d) => (d.rules.in_force > 0 || d.denials.length > 0) && html`
  <h3>What clients are denied</h3>
  <p class="dim">${plural(d.rules.in_force, 'rule')} in force <${Ago} at=${d.rules.since} suffix=${false} />. Since the start: ${num(d.decisions.allowed)} allowed, ${num(d.decisions.denied)} denied, ${num(d.decisions.ended)} streams ended.</p>
  <${Table} label="Denied" rows=${d.denials} empty="Nothing was denied." attrs=${(x) => ({ key: [x.identity, x.listener, x.origin, x.type, x.name, x.reason].join(' ') })} columns=${[
    { head: 'Last', num: true, sort: (x) => -Date.parse(x.last), cell: (x) => html`<${Ago} at=${x.last} />` }, { head: 'Identity', sort: (x) => x.identity, cell: (x) => x.identity }, { head: 'Listener', sort: (x) => x.listener, cell: (x) => x.listener },
    { head: 'Origin', sort: (x) => x.origin, cell: (x) => x.origin }, { head: 'Type', sort: (x) => x.type, cell: (x) => x.type }, { head: 'Name', sort: (x) => x.name, cell: (x) => x.name || (x.result === 'denied' ? 'others of long requests' : '') },
    { head: 'Times', num: true, sort: (x) => x.count, cell: (x) => num(x.count) }, { head: 'Why', wide: true, sort: (x) => x.reason, cell: (x) => html`${x.reason} ${x.result === 'ended' && html`<${Badge} state="bad">stream ended<//>`}` },
    { head: 'Last client', sort: (x) => x.node_id, cell: (x) => html`<a href=${links.client(x.node_id)}>${x.node_id}</a> <${Peer} at=${x.peer} />` },
  ]} />
  ${d.truncated && html`<p class="dim"><a href=${`/authz?limit=${d.total}`}>All ${num(d.total)}</a> in JSON.</p>`}`}<//>`;
