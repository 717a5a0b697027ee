// Rollback: how an origin is held at earlier states, and the view in which one is chosen.
import { html, Component, Ago, clock, num, plural, links, query, enc, isTime } from './lib.js';
import { Load } from './fetch.js';
import { View, Badge, Table, Facts, Action } from './parts.js';
import { live, Watching } from './live.js';
import { base, groupLabel, labelOf, GroupLink } from './map.js';

export const shortState = (id) => (id ? id.slice(0, 12) : '');

// shortOrder is what was ordered: an ID in short, or as it is.
const shortOrder = (to) => (/^[0-9a-f]{32}$/.test(to) ? shortState(to) : to);
const rollbackLink = (origin, group) => `#/rollback${query({ origin, group })}`;

// stateOf is what a group is held at: the state if it is known, or else what was ordered.
const stateOf = (g) => (g.state ? html`<code title=${g.state}>${shortState(g.state)}</code>${isTime(g.of) && html` <span class="dim">of ${clock(g.of)}</span>`}` : g.to);

const Forward = ({ origin, group, label = 'Roll forward', what }) => html`<${Action} action="rollforward" label=${label}
  path=${`/origins/${enc(origin)}/rollforward${query({ group })}`} question=${`Give ${what} what the origin says now?`} />`;

const most = 20; // groups that are shown

// RollbackPanel says how an origin is rolled back, and leads back and forward.
export function RollbackPanel({ o }) {
  const b = o.rollback;
  const same = b && new Set(b.groups.map((g) => g.state)).size === 1 ? b.groups[0] : null;
  const more = b ? b.groups.length + (b.groups_left_out ?? 0) - most : 0;
  return html`<section class="panel" data-rollback=${b ? 'held' : 'none'}>
    <h3>Rollback</h3>
    ${!b ? html`<p class="dim">Not rolled back.</p>` : html`
      <p><${Badge} state="warn">rolled back<//> ${b.whole ? 'all groups' : plural(b.groups.length + (b.groups_left_out ?? 0), 'group')} since <${Ago} at=${b.since} />, by ${b.by}.</p>
      <${Facts} of=${[
    ['State', same ? stateOf(same) : 'of each group its own'], ['Ordered', html`<code title=${b.to}>--to ${shortOrder(b.to)}</code>`], ['Differ from the origin', plural(b.waiting, 'resource')],
  ]} />
      ${b.groups.length > 1 && !(b.whole && same) && html`<ul class="held">${b.groups.slice(0, most).map((g) => html`<li key=${g.group} data-held=${g.group}>
        <${GroupLink} origin=${o.name} group=${g.group} text=${groupLabel(o.name, g.group)} /> ${stateOf(g)} <span class="dim">by ${g.by} <${Ago} at=${g.since} />, ${num(g.waiting)} differ</span>
        ${!b.whole && html`<${Forward} origin=${o.name} group=${g.group} what=${`the clients of ${groupLabel(o.name, g.group)}`} />`}</li>`)}
        ${more > 0 && html`<li class="dim">and ${num(more)} more in JSON</li>`}</ul>`}`}
    <div class="actions">
      <a class="button" href=${rollbackLink(o.name)}>Roll back…</a>
      ${b && html`<${Forward} origin=${o.name} what=${`all clients of ${o.name}`} label=${b.whole || b.groups.length === 1 ? 'Roll forward' : 'Roll all forward'} />`}
    </div>
  </section>`;
}

// whole are the states that all groups of an origin can go back to with one order.
const whole = [
  { to: 'last-good', text: 'The newest good state of each group before the present one' },
  ...['5m', '10m', '30m', '1h', '6h', '24h'].map((to) => ({ to, text: `What each group had ${to} ago` })),
];

const pick = (row, to, picked, choose, off) => html`<input type="radio" name="to" value=${to} checked=${picked === to} disabled=${off} aria-label=${`to ${row}`} onChange=${() => choose(to)} />`;

function Whole({ picked, choose }) {
  return html`<${Table} label="States" rows=${whole} attrs=${(r) => ({ key: r.to, 'data-to': r.to })} columns=${[
    { head: 'To', cell: (r) => pick(r.to, r.to, picked, choose) }, { head: 'State', cell: (r) => r.text },
    { head: 'As an order', cell: (r) => html`<code>--to ${r.to}</code>` },
  ]} />`;
}

const missing = 'This weir keeps no history (cache.history), so there is nothing to go back to.';

// States are those of one group. What is not kept as a whole, and the present one, cannot be chosen.
function States({ origin, group, picked, choose }) {
  const to = (s) => s.id || String(s.revision);
  return html`<${Load} path=${statesPath(origin, group)} every=${5000} missing=${missing}>${(d) => html`
    <${Table} label="States" rows=${d.states} empty="No state is kept yet." attrs=${(s) => ({ key: s.revision, 'data-to': to(s), 'data-good': isTime(s.good) })} columns=${[
    { head: 'To', cell: (s) => pick(shortState(to(s)), to(s), picked, choose, s.present || !s.whole) },
    { head: 'Since', num: true, sort: (s) => isTime(s.at) && -Date.parse(s.at), cell: (s) => html`<${Ago} at=${s.at} none="before" />` },
    { head: 'State', sort: (s) => s.revision, cell: (s) => html`<code title=${s.id}>${shortState(s.id) || s.revision}</code>` },
    { head: 'Good', sort: (s) => (isTime(s.good) ? 0 : 1), cell: (s) => html`${isTime(s.good) && html`<${Badge} state="good">good<//> `}${s.present && html`<${Badge}>present<//> `}${!s.whole && html`<${Badge} state="warn">not kept whole<//>`}` },
    { head: 'Changed', num: true, sort: (s) => (s.added ?? 0) + (s.changed ?? 0) + (s.removed ?? 0), cell: (s) => [s.added && `+${num(s.added)}`, s.changed && `~${num(s.changed)}`, s.removed && `−${num(s.removed)}`].filter(Boolean).join(' ') },
    { head: 'Types', sort: (s) => s.types?.join(), cell: (s) => s.types?.join(', ') },
  ]} />`}<//>`;
}

// shownTier is the tier of a group whose states are those to go back to: with canaries the rest.
function shownTier(origin, group) {
  const rest = `${group}-rest`;
  const o = live.overview?.origins.find((x) => x.name === origin);
  return group && o?.worst_groups.some((g) => g.key === rest) ? rest : group;
}

const statesPath = (origin, group) => `/history${query({ origin, group: shownTier(origin, group), states: 1 })}`;

// Choice is a state that was chosen. It is forgotten when the group is another one.
class Choice extends Component {
  constructor(props) {
    super(props);
    this.state = { to: '' };
  }
  render({ origin, group }, { to }) {
    const choose = (x) => this.setState({ to: x });
    const label = group && groupLabel(origin, group);
    const who = !group ? `all clients of ${origin}` : label === 'all clients' ? label : `the clients of ${label}`;
    return html`${group ? html`<${States} origin=${origin} group=${group} picked=${to} choose=${choose} />` : html`<${Whole} picked=${to} choose=${choose} />`}
      <section class="panel">
        ${to ? html`<p>In a terminal: <code>weir rollback ${origin}${group && ` --group ${group.slice(0, 12)}`} --to ${shortOrder(to)}</code></p>` : html`<p class="dim">Choose a state. It is given to ${who}, all types at once, and they stay at it until you roll forward.</p>`}
        ${to && html`<${Action} key=${to} action="rollback" label="Roll back" danger path=${`/origins/${enc(origin)}/rollback${query({ to, group })}`}
          question=${`Give ${who} ${group ? 'the state ' : ''}${shortOrder(to)}, and keep them there?`} />`}
      </section>`;
  }
}

export class Rollback extends Watching {
  render({ filter: { origin = '', group = '' } }) {
    const o = live.overview?.origins.find((x) => x.name === origin);
    if (!o) {
      return html`<${View} name="rollback" title="Roll back" json="/origins" back=${{ href: '#/', text: 'Overview' }}>
        <p class="note">${live.overview ? 'There is no such origin.' : 'Loading'}</p><//>`;
    }
    const groups = [...new Map(o.worst_groups.map((g) => [base(g.key), labelOf(g)]))].map(([key, name]) => ({ key, name }));
    if (group && !groups.some((g) => g.key === group)) groups.push({ key: group, name: groupLabel(origin, group) });
    const set = (key) => { location.hash = rollbackLink(origin, key); };
    return html`<${View} name="rollback" title=${`Roll back ${origin}`} json=${statesPath(origin, group)} back=${{ href: links.origin(origin), text: origin }}
        sub="Clients get an earlier state, and stay at it. Endpoints and secrets go on changing.">
      ${o.rollback && html`<p class="note is-warn">Rolled back since <${Ago} at=${o.rollback.since} /> by ${o.rollback.by} to ${shortOrder(o.rollback.to)}.</p>`}
      <form class="filter" aria-label="Which" onSubmit=${(e) => e.preventDefault()}>
        <label>Group<select name="group" onChange=${(e) => set(e.target.value)}><option value="">all groups</option>
          ${groups.map((g) => html`<option key=${g.key} value=${g.key} selected=${g.key === group}>${g.name}</option>`)}</select></label>
      </form>
      <${Choice} key=${group} origin=${origin} group=${group} />
    <//>`;
  }
}
