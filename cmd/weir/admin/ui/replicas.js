// The other replicas of this deployment: how each is doing, and the way to its page. weir asks them
// over the port of cache.seed, so the browser asks this weir alone.
import { html, Component, Ago, num, percent, plural, page, isTime } from './lib.js';
import { Load } from './fetch.js';
import { View, Badge, Table, Peer } from './parts.js';

const words = { good: 'OK', warn: 'warning', bad: 'problem' };
const order = { good: 0, warn: 1, bad: 2 };
const self = (r) => !r.address;
const nameOf = (r) => r.host || r.address;

// Name leads to the page of a replica, if it has one for others.
const Name = ({ r }) => (r.page ? html`<a class="nowrap" href=${r.page} title=${`Open ${r.page}`}>${nameOf(r)}</a>` : html`<span class="nowrap" title=${self(r) || r.error ? undefined : 'Its admin port is on loopback or a Unix socket: other machines cannot open it'}>${nameOf(r)}</span>`);

const columns = [
  { head: 'Replica', sort: nameOf, cell: (r) => html`<${Name} r=${r} />${self(r) && html` <span class="dim">this one</span>`}` },
  { head: 'State', sort: (r) => order[r.state], cell: (r) => html`<${Badge} state=${r.state}>${r.error ? 'no answer' : words[r.state]}<//>` },
  { head: 'Headline', wide: true, sort: (r) => r.sentence || r.error, cell: (r) => r.sentence || r.error },
  { head: 'Clients', num: true, sort: (r) => !r.error && r.clients, cell: (r) => !r.error && num(r.clients) },
  { head: 'In sync', num: true, sort: (r) => !r.error && r.in_sync_percent, cell: (r) => !r.error && `${percent(r.in_sync_percent)}%` },
  { head: 'Rejecting', num: true, sort: (r) => r.nacking, cell: (r) => r.nacking > 0 && num(r.nacking) },
  { head: 'Up', num: true, sort: (r) => isTime(r.started) && -Date.parse(r.started), cell: (r) => isTime(r.started) && html`<${Ago} at=${r.started} suffix=${false} />` },
  { head: 'Version', minor: true, sort: (r) => r.version, cell: (r) => r.version },
  { head: 'Address', minor: true, sort: (r) => r.address, cell: (r) => r.address && html`<${Peer} at=${r.address} />` },
];

const every = 5000;

// Replicas are all of them in one table.
export function Replicas() {
  return html`<${View} name="replicas" title="Replicas" json="/replicas" sub="The processes of this deployment, as each describes itself. A link opens the page of that replica.">
    ${!page.replicas && html`<p class="note">This weir knows no other replica: they are those of cache.seed.peers.</p>`}
    <${Load} path="/replicas" every=${every}>${(d) => html`<${Table} label="Replicas" rows=${d.replicas} columns=${columns}
      attrs=${(r) => ({ key: r.address ?? '', 'data-replica': nameOf(r), 'data-state': r.state })} />
      <p class="dim">${plural(d.replicas.length, 'replica')}, ${plural(d.replicas.reduce((n, r) => n + r.clients, 0), 'client')}.</p>`}<//>
  <//>`;
}

// Picker is the same in one line: above the headline of one replica.
export class Picker extends Component {
  shouldComponentUpdate() { return false; }
  render() {
    return page.replicas && html`<${Load} path="/replicas" every=${every}>${(d) => html`<nav class="replicas" aria-label="Replicas">
      <a class="dim" href="#/replicas">${plural(d.replicas.length, 'replica')}</a>
      ${d.replicas.map((r) => html`<span key=${r.address ?? ''} class="replica is-${r.state}" data-replica=${nameOf(r)} data-state=${r.state}><i class="dot" title=${r.error || r.sentence}></i>
        ${self(r) ? html`<b aria-current="true">${nameOf(r)}</b>` : html`<${Name} r=${r} />`}
        <span class="dim num">${r.error ? 'no answer' : num(r.clients)}</span></span>`)}
    </nav>`}<//>`;
  }
}
