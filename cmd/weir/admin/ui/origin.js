// An origin with its groups and actions, and a group with its types and clients.
import { html, Ago, num, bytes, plural, links, query, isTime, typeOf, typeName } from './lib.js';
import { Load } from './fetch.js';
import { View, Badge, Table, Facts, Action } from './parts.js';
import { live, Watching } from './live.js';
import { Flow, base, groupName, originState } from './map.js';
import { ClientRows } from './clients.js';
import { RollbackPanel } from './rollback.js';
import { CanaryPanel } from './canary.js';

// Actions are what an operator can do to an origin.
function Actions({ o }) {
  const name = encodeURIComponent(o.name);
  const frozen = o.frozen_by?.length > 0;
  const rolledBack = o.rollback?.whole; // it is frozen as long as that lasts
  return html`<section class="panel">
    <h3>Guard and freeze</h3>
    <p class="dim">${frozen
    ? html`Frozen by ${o.frozen_by.join(' and ')} since <${Ago} at=${o.frozen} />: ${plural(o.frozen_changes ?? 0, 'change')} waiting. Clients stay at what they have.`
    : 'Not frozen: clients are given each change.'}
      ${o.held_removals > 0 ? html` The guard holds back ${plural(o.held_removals, 'removal')}, <${Ago} until=${o.held_until} />.` : ' The guard holds nothing back.'}</p>
    <div class="actions">
      ${rolledBack ? html`<p class="dim">Rolling forward ends the freeze, too.</p>` : frozen
    ? html`<${Action} action="unfreeze" label="Unfreeze" path=${`/origins/${name}/unfreeze`} question=${`Give the clients of ${o.name} all that has changed?`} />`
    : html`<${Action} action="freeze" label="Freeze" path=${`/origins/${name}/freeze`} question=${`Keep all clients of ${o.name} at what they have now?`} />`}
      ${o.held_removals > 0 && html`<${Action} action="release" label="Release" danger path=${`/guard/release${query({ origin: o.name })}`} question=${`Remove ${plural(o.held_removals, 'resource')} from clients now?`} />`}
    </div>
  </section>`;
}

function Errors({ o }) {
  const all = [];
  if (o.error) all.push({ what: 'last error', text: o.error, at: o.error_at });
  for (const f of [...(o.files ?? []), ...(o.fallback?.files ?? [])]) {
    if (f.error) all.push({ what: f.path, text: f.error, at: f.error_at });
  }
  if (o.fallback?.error) all.push({ what: 'fallback', text: o.fallback.error, at: o.fallback.error_at });
  for (const s of o.slow ?? []) all.push({ what: `no answer for ${s.type}`, text: `asked, and ${plural(s.groups, 'group')} waiting`, at: s.since });
  for (const n of o.nacks ?? []) all.push({ what: `weir rejected ${n.type}, ${n.count} times`, text: n.reason });
  for (const q of o.quarantined ?? []) all.push({ what: `${q.type} in quarantine, refused ${q.refused} times`, text: q.reason, at: q.since });
  return all.length > 0 && html`<section class="panel"><h3>What is wrong</h3>
    <ul class="errors">${all.map((e) => html`<li key=${e.what + e.text}><b>${e.what}</b> ${isTime(e.at) && html`<${Ago} at=${e.at} />`}<p>${e.text}</p></li>`)}</ul></section>`;
}

export class Origin extends Watching {
  render({ name }) {
    const o = live.overview?.origins.find((x) => x.name === name);
    if (!o) {
      return html`<${View} name="origin" title=${name} json="/origins" back=${{ href: '#/origins', text: 'Origins' }}>
        <p class="note">${live.overview ? 'There is no such origin.' : 'Loading'}</p><//>`;
    }
    const f = o.fallback;
    return html`<${View} name="origin" title=${name} json="/origins" back=${{ href: '#/origins', text: 'Origins' }}
        sub=${html`<${Badge} state=${o.connected ? 'good' : o.state}>${originState(o)}<//> ${o.kind} ${o.source}`}>
      <div class="columns">
        <${Facts} of=${[
    ['State', html`${originState(o)} <${Ago} at=${o.since} suffix=${false} none="" />`],
    ['Last answer', html`<${Ago} at=${o.last_proof} />`], ['Last change', html`<${Ago} at=${o.last_update} />`],
    ['Streams', num(o.streams)], ['Groups', num(o.groups)], ['Clients', num(o.clients)],
    ['Resources', html`${num(o.resources)} <span class="dim">${o.copies > o.resources && `${num(o.copies)} copies, `}${bytes(o.bytes)}</span>`], ['Stale', num(o.stale)],
    ['Parameter sets', o.parameter_sets && num(o.parameter_sets)],
    ['Fallback', f && html`${f.kind} ${f.source}, ${f.serving ? `${plural(f.serving, 'resource')} served` : f.ready ? 'ready' : 'cannot stand in'}`],
    ['Silent about', o.silent?.length > 0 && html`node id <code>${o.silent[0].node_id}</code>${o.silent_groups > 1 && ` and ${o.silent_groups - 1} more`} <${Ago} at=${o.silent[0].since} suffix=${false} />: it may not know the node`],
    ['Failures', o.failures && num(o.failures)],
  ]} />
        <${Actions} o=${o} />
        <${RollbackPanel} o=${o} />
      </div>
      <${CanaryPanel} o=${o} />
      <${Errors} o=${o} />
      <p class="jump"><a href=${links.clients({ origin: name })}>Clients</a> <a href=${links.resources({ origin: name })}>Resources</a>
        <a href=${`#/nacks${query({ origin: name })}`}>NACKs</a> <a href=${`#/history${query({ origin: name })}`}>History</a></p>
      <section class="map"><${Flow} o=${o} every changes=${0} /></section>
    <//>`;
  }
}

// Types are those of a group, as its origin is asked for them.
const Types = ({ origin, group, types }) => html`<${Table} label="Types" rows=${types} empty="Nothing is asked."
  attrs=${(t) => ({ key: t.type_url })} href=${(t) => links.resources({ origin, group, type: typeOf(t) })}
  columns=${[
    { head: 'Type', sort: typeName, cell: (t) => html`<a href=${links.resources({ origin, group, type: typeOf(t) })}>${typeName(t)}</a>` },
    { head: 'Resources', num: true, sort: (t) => t.resources, cell: (t) => html`${num(t.resources)} <span class="dim">${bytes(t.bytes)}</span>` },
    { head: 'Asked', sort: (t) => (t.wildcard ? Infinity : t.names), cell: (t) => [t.wildcard && 'all', t.names > 0 && `${num(t.names)} by name`, t.collections > 0 && plural(t.collections, 'collection')].filter(Boolean).join(', ') || 'nothing' },
    { head: 'State', sort: (t) => t.stale + t.waiting + (t.held_removals ?? 0), cell: (t) => html`${t.waiting > 0 && html`<${Badge} state="warn">${num(t.waiting)} unanswered<//> `}
        ${t.wildcard && !t.settled && html`<${Badge} state="warn">list not complete<//> `}${t.stale > 0 && html`<${Badge} state="bad">${num(t.stale)} stale<//> `}
        ${t.held_removals > 0 && html`<${Badge} state="warn">${num(t.held_removals)} removals held<//> `}
        ${!t.waiting && !t.stale && !(t.wildcard && !t.settled) && !t.held_removals && html`<${Badge} state="good">answered<//>`}` },
    { head: 'Absent', num: true, sort: (t) => t.absent, cell: (t) => num(t.absent) },
    { head: 'Parameter sets', num: true, sort: (t) => t.parameter_sets, cell: (t) => num(t.parameter_sets) },
  ]} />`;

export function Group({ origin, group }) {
  return html`<${Load} path=${`/groups${query({ origin, limit: 100000 })}`} every=${5000}>${(data) => {
    const g = data.groups.find((x) => x.key === group);
    return html`<${View} name="group" title=${groupName(origin, group)} json=${`/groups${query({ origin })}`}
        back=${{ href: links.origin(origin), text: origin }} sub=${html`<code>${group}</code>`}>
      ${!g ? html`<p class="note">There is no such group now: its last client has left.</p>` : html`
        <${Facts} of=${[
    ['Clients', num(g.clients)], ['Node presented', g.node_id], ['Cluster', g.node_cluster], ['Clients of', g.identity],
    ['Dedicated', g.dedicated && 'to one client stream'], ['Revision', num(g.revision)], ['Parameter sets', g.parameter_sets && num(g.parameter_sets)],
    ['Stream', g.main_lane.open ? 'open' : g.main_lane.wanted ? 'wanted, not open' : 'not wanted'],
  ]} />
        ${g.members_differ?.map((d) => html`<p key=${d.field} class="note is-warn">Members differ in ${d.field}: ${d.values[0]} (${d.node_ids[0]}) and ${d.values[1]} (${d.node_ids[1]}).</p>`)}
        <p class="jump"><a href=${`#/rollback${query({ origin, group: base(group) })}`}>Roll back…</a> <a href=${`#/history${query({ origin, group })}`}>History</a></p>
        <h3>Types</h3><${Types} origin=${origin} group=${group} types=${g.types} />
        <h3>Clients, worst first</h3>
        <${ClientRows} filter=${{ origin, group }} size=${50} />`}
    <//>`;
  }}<//>`;
}
