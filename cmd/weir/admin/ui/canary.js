// The canary gate of an origin: how far each group is, and what an operator can do about it.
import { html, Ago, num, plural, query, enc, isTime, now } from './lib.js';
import { Badge, Facts, Action } from './parts.js';
import { groupLabel, GroupLink } from './map.js';
import { shortState } from './rollback.js';

// order puts first what waits for people.
const order = ['stopped', 'baking', 'settling', 'paused', 'starting', 'idle'];
const most = 20;

export const gateState = (s) => {
  if (s.phase === 'stopped' || s.undecided) return 'warn';
  return { idle: 'good', baking: 'dim', settling: 'dim' }[s.phase] ?? 'dim';
};

const checks = { fine: 'good', objects: 'bad', unknown: 'warn' };

// left is for how long a candidate has to be good yet.
const left = (s) => (Date.parse(s.bakes) > now() ? html`<${Ago} until=${s.bakes} />` : 'over');

function Gate({ origin, s }) {
  const path = (action) => `/origins/${enc(origin)}/canary${query({ action, group: s.group })}`;
  const name = groupLabel(origin, s.group);
  const tried = s.phase === 'baking' || s.phase === 'stopped';
  return html`<article class="gate" data-gate=${s.group} data-phase=${s.phase}>
    <div class="entry-head">
      <${Badge} state=${gateState(s)}>${s.undecided ? 'neither good nor bad' : s.phase}<//>
      <h3><${GroupLink} origin=${origin} group=${s.group} text=${name} /></h3>
      ${s.candidate && html`<span class="dim">candidate <code title=${s.candidate}>${shortState(s.candidate)}</code></span>`}
      <span class="when dim"><${Ago} at=${s.since} /></span>
    </div>
    ${s.why && (s.phase === 'stopped' || s.phase === 'paused') && html`<p class="message" data-why>${s.why}</p>`}
    <${Facts} of=${[
    ['Acknowledged', s.canaries > 0 && `${num(s.acked ?? 0)} of ${plural(s.canaries, 'canary', 'canaries')}, ${num(s.needed ?? 0)} needed`],
    ['Canaries', s.phase === 'baking' && !s.canaries && 'none is connected here'],
    ['Gone', s.gone > 0 && `${plural(s.gone, 'canary', 'canaries')} that had it`],
    ['Bake', isTime(s.bakes) && left(s)],
    ['Check', s.check && html`<${Badge} state=${checks[s.check]}>${s.check}<//> ${s.check_said}`],
    ['Waiting', plural(s.waiting, 'resource')],
    ['Goes to all', s.undecided && (isTime(s.promoted) ? html`<${Ago} until=${s.promoted} />` : 'when you say so')],
  ]} />
    ${tried && html`<div class="actions">
      <${Action} action="promote" label="Promote" path=${path('promote')} question=${`Give all clients of ${name} the candidate now?`} />
      ${s.phase === 'baking' && html`<${Action} action="stop" label="Stop" danger path=${path('stop')} question=${`End the candidate of ${name} as if it were rejected?`} />`}
      <${Action} action="retry" label="Try again" path=${path('retry')} question=${`Begin anew with what the origin says now to ${name}?`} />
    </div>`}
  </article>`;
}

// CanaryPanel has the groups that do something, and how many do not.
export function CanaryPanel({ o }) {
  if (!o.canary) return null;
  const all = [...o.canary].sort((a, b) => order.indexOf(a.phase) - order.indexOf(b.phase));
  const busy = all.filter((s) => s.phase !== 'idle').slice(0, most);
  const { idle = 0, ...others } = o.canary_phases ?? {};
  const more = Object.values(others).reduce((n, x) => n + x, 0) - busy.length;
  return html`<section class="panel" data-canary>
    <h3>Canary gate</h3>
    ${busy.map((s) => html`<${Gate} key=${s.group} origin=${o.name} s=${s} />`)}
    <p class="dim">${[(idle > 0 || !busy.length) && `${plural(idle, 'group')} with what the origin says`, more > 0 && `${num(more)} more in JSON`].filter(Boolean).join('; ')}</p>
  </section>`;
}
