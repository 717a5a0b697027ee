// The map: an origin at the left, its groups as bars as wide as they have clients, the worst first.
// Between them the flow is as broad as a group is large.
import { html, Component, Ago, num, plural, links, rate } from './lib.js';
import { Badge } from './parts.js';
import { live } from './live.js';

const rowHeight = 30;
const few = 8; // groups that are shown at first

export function groupState(g) {
  if (g.nacking) return 'bad';
  return g.unsynced ? 'warn' : 'good';
}

// groupWords says the same in words.
export function groupWords(g) {
  if (g.nacking) return 'rejects';
  return g.unsynced ? 'behind' : g.clients ? 'in sync' : 'no client';
}

export function originState(o) {
  if (o.connected) return 'connected';
  if (o.kind === 'files' && o.error) return 'files refused';
  if (o.state === 'bad') return o.reached ? 'away' : 'never answered';
  return 'not asked yet';
}

// nameOf is what people know a group by: whose it is, and the digits by which commands take it.
export function nameOf(g, o) {
  return labelOf(g) + tierOf(g, o);
}

// base is the key that the tiers of a group have in common (origins[].canary).
export const base = (key) => key.replace(/-(canary|rest)$/, '');

const tiers = { canary: ', canaries', rest: ', the rest' };
const tierOf = (g, o) => tiers[/-(canary|rest)$/.exec(g.key)?.[1]] ?? (o.worst_groups.some((x) => x.key !== g.key && base(x.key) === g.key) ? ', newest' : '');

// shortKey is the key of a group as commands have it, without the tier.
const shortKey = (key) => (key.startsWith('dedicated-') ? key : base(key).slice(0, 8));

const whose = (g) => g.identity || g.node_cluster;

// labelOf is the same for all tiers of a group.
export function labelOf(g) {
  return [whose(g), shortKey(g.key)].filter(Boolean).join(' ');
}

// groupName is the name of a group by its key, if the overview has it.
export function groupName(origin, key) {
  const o = live.overview?.origins.find((x) => x.name === origin);
  const g = o?.worst_groups.find((x) => x.key === key);
  return g ? nameOf(g, o) : shortKey(key);
}

// groupLabel is the same without the tier.
export function groupLabel(origin, key) {
  const o = live.overview?.origins.find((x) => x.name === origin);
  const g = o?.worst_groups.find((x) => base(x.key) === base(key));
  return g ? labelOf(g) : shortKey(key);
}

// GroupLink leads to a group, by its name.
export const GroupLink = ({ origin, group, text }) => html`<a href=${links.group(origin, group)} title=${group}>${text ?? groupName(origin, group)}</a>`;

// gates are how many canary gates of an origin are in a phase.
const gates = (o, phase) => o.canary_phases?.[phase] ?? 0;

// Chips are what is not as usual with an origin itself.
export const Chips = ({ o }) => html`
  ${o.stale > 0 && o.state === 'bad' && html`<${Badge} state="bad">${num(o.stale)} stale<//>`}
  ${o.frozen_by?.length > 0 && !o.rollback?.whole && html`<${Badge} state="warn">frozen by ${o.frozen_by.join(' and ')}<//>`}
  ${o.rollback && html`<${Badge} state="warn">rolled back by ${o.rollback.by}<//>`}
  ${gates(o, 'stopped') > 0 && html`<${Badge} state="warn">${plural(gates(o, 'stopped'), 'candidate')} stopped<//>`}
  ${gates(o, 'baking') > 0 && html`<${Badge}>${plural(gates(o, 'baking'), 'candidate')} baking<//>`}
  ${o.held_removals > 0 && html`<${Badge} state="warn">${num(o.held_removals)} removals held<//>`}
  ${o.quarantined?.length > 0 && html`<${Badge} state="warn">${o.quarantined.length} in quarantine<//>`}
  ${o.fallback?.serving > 0 && html`<${Badge} state="warn">${num(o.fallback.serving)} of the fallback<//>`}
  ${o.differing_groups > 0 && html`<${Badge} state="warn">${plural(o.differing_groups, 'group')} with members that differ<//>`}`;

// OriginCard is an origin in short.
export function OriginCard({ o, changes }) {
  return html`<a class="origin is-${o.state}" href=${links.origin(o.name)} data-origin=${o.name} data-state=${o.state} data-href=${links.origin(o.name)}>
    <span class="name"><i class="dot"></i>${o.name}</span>
    <span class="state ${o.connected ? 'is-good' : ''}">${originState(o)} <${Ago} at=${o.since} suffix=${false} none="" /></span>
    <span class="dim source">${o.kind} ${o.source}</span>
    <span class="chips"><${Chips} o=${o} /></span>
    <span class="dim num">${num(o.resources)} resources, ${plural(o.streams, 'stream')}${changes > 0 && o.connected && html`, <span class="nowrap">${rate(changes)} changes/s</span>`}</span>
  </a>`;
}

// Pipes are the lines from the origin to its groups.
function Pipes({ groups, most, state, flows }) {
  const height = Math.max(groups.length, 1) * rowHeight;
  return html`<svg class="pipes ${flows ? 'flows' : ''}" viewBox=${`0 0 100 ${height}`} height=${height} preserveAspectRatio="none" aria-hidden="true">
    ${groups.map((g, i) => {
    const y = i * rowHeight + rowHeight / 2;
    const width = 1.5 + (g.clients / most) * 8;
    const d = `M0 ${height / 2} C50 ${height / 2} 50 ${y} 100 ${y}`;
    return html`<g key=${g.key} class="is-${state === 'bad' ? 'bad' : groupState(g)} ${state === 'bad' ? 'cut' : ''}">
      <path d=${d} stroke-width=${width.toFixed(1)} />${flows && state !== 'bad' && html`<path class="stream" d=${d} />`}</g>`;
  })}
  </svg>`;
}

// GroupRow is a group: its name, its bar, and what is wrong with it since when.
export function GroupRow({ o, g, most }) {
  const state = groupState(g);
  const share = (n) => ({ width: `${g.clients ? (Math.min(n, g.clients) / g.clients) * 100 : 0}%` });
  const behind = Math.max(g.unsynced - g.nacking, 0);
  const rest = Math.max(g.clients - behind - g.nacking, 0);
  return html`<a class="group is-${state}" href=${links.group(o.name, g.key)} data-group=${g.key} data-state=${state} data-href=${links.group(o.name, g.key)} title=${g.key}>
    <span class="name"><span class="whose">${whose(g) || shortKey(g.key)}${tierOf(g, o)}</span>${whose(g) && html` <span class="key dim">${shortKey(g.key)}</span>`}</span>
    <span class="track" role="img" aria-label=${`${g.clients - g.unsynced} of ${g.clients} in sync`}>
      <span class="bar" style=${{ width: `${most ? Math.max((g.clients / most) * 100, g.clients ? 1.5 : 0) : 0}%` }}>
        <i class="nacking" style=${share(g.nacking)}></i><i class="unsynced" style=${share(behind)}></i><i class="synced" style=${share(rest)}></i>
      </span>
    </span>
    <span class="what num">${g.nacking > 0 ? html`${num(g.nacking)} reject ` : ''}${behind > 0 ? html`${num(behind)} behind ` : ''}${g.since ? html`<${Ago} at=${g.since} suffix=${false} />` : ''}
      <b>${num(g.clients)}</b></span>
  </a>`;
}

// mostClients is what the longest bar stands for.
export const mostClients = (origins) => Math.max(1, ...origins.flatMap((o) => o.worst_groups.map((g) => g.clients)));

// Scale says how many clients a bar is.
const Scale = ({ most }) => html`<div class="scale dim num" aria-hidden="true"><span class="axis">
  <i>0</i>${most > 1 && most % 2 === 0 && html`<i>${num(most / 2)}</i>`}<i>${plural(most, 'client')}</i></span></div>`;

// MapLegend says what colours and lines mean.
export const MapLegend = () => html`<ul class="map-legend dim" aria-label="Legend">
  <li><i class="swatch synced"></i>in sync</li><li><i class="swatch unsynced"></i>behind</li><li><i class="swatch nacking"></i>rejecting</li>
  <li><svg viewBox="0 0 26 8" aria-hidden="true"><path d="M0 4H26" /></svg>stream to the origin; its width is the number of clients</li>
  <li><svg viewBox="0 0 26 8" aria-hidden="true" class="cut"><path d="M0 4H26" /></svg>origin away</li>
  <li><svg viewBox="0 0 26 8" aria-hidden="true" class="moves"><path d="M0 4H26" /></svg>changes arrive</li>
</ul>`;

export class Flow extends Component {
  constructor(props) {
    super(props);
    this.state = { all: false };
  }
  render({ o, changes, every, most = mostClients([o]) }, { all }) {
    const groups = all || every ? o.worst_groups : o.worst_groups.slice(0, few);
    const more = o.worst_groups.length - groups.length;
    return html`<div class="flow">
      ${groups.length > 0 && html`<${Scale} most=${most} />`}
      <${OriginCard} o=${o} changes=${changes} />
      <${Pipes} groups=${groups} most=${most} state=${o.state} flows=${changes > 0} />
      <div class="groups">
        ${groups.map((g) => html`<${GroupRow} key=${g.key} o=${o} g=${g} most=${most} />`)}
        ${!groups.length && html`<p class="note dim">No client has asked it yet.</p>`}
      </div>
      <div class="rest">
        ${more > 0 && html`<button class="quiet" onClick=${() => this.setState({ all: true })}>${plural(more, 'more group')}</button>`}
        ${!more && o.groups_left_out > 0 && html`<a class="dim" href=${links.origin(o.name)}>and ${num(o.groups_left_out)} more</a>`}
      </div>
    </div>`;
  }
}
