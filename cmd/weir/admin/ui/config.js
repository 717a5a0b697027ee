// The configuration in force, and the process: readiness, snapshot, certificates, memory, drain.
import { html, Ago, num, bytes, page, plural, query, isTime } from './lib.js';
import { Load } from './fetch.js';
import { View, Facts, Badge, Action, Code } from './parts.js';
import { live, Watching } from './live.js';

function Refused({ c }) {
  if (!isTime(c.refused)) return null;
  return html`<section class="panel is-bad"><h3>The configuration file was refused</h3>
    <p><${Ago} at=${c.refused} />; ${isTime(c.accepted) ? html`what was accepted last, <${Ago} at=${c.accepted} />, is in force` : 'what was in force before stays'}.</p>
    <ul class="errors">${(c.problems ?? []).map((p) => html`<li key=${p}><code>${p}</code></li>`)}</ul></section>`;
}

function Snapshot({ s }) {
  if (!s) return html`<section class="panel"><h3>Snapshot</h3><p class="dim">None is configured.</p></section>`;
  const left = s.left_out ?? {};
  return html`<section class="panel"><h3>Snapshot ${s.error ? html`<${Badge} state="bad">not written<//>` : html`<${Badge} state="good">whole<//>`}</h3>
    ${s.error && html`<p class="note is-bad">${s.error}</p>`}
    <${Facts} of=${[
    ['File', html`<code>${s.path}</code>`], ['Last whole', html`<${Ago} at=${s.saved_at} />`], ['Resources', num(s.resources)], ['Size', bytes(s.bytes)], ['Key', s.key],
    ['Restored at the start', s.restored && num(s.restored)], ['Lost', s.lost && num(s.lost)],
    ['Left out, being secrets', left.secrets && num(left.secrets)], ['Left out, with private keys', left.with_private_keys && num(left.with_private_keys)],
    ['Left out for max_bytes', s.left_out_groups?.groups && plural(s.left_out_groups.groups, 'group')],
  ]} />
    ${s.left_out_groups?.too_large?.map((t) => html`<p key=${t} class="note is-warn">${t}</p>`)}</section>`;
}

// Drain stands apart: it is the one action here that ends something.
const Drain = ({ draining }) => html`<section class="panel danger-zone" data-drain>
  <h3>Drain this replica</h3>
  <p>Drain moves the clients away and then ends this process, as SIGTERM does:</p>
  <ol class="steps">
    <li>/readyz answers 503, so that balancers send new clients to other replicas.</li>
    <li>Open client streams are closed over the time of <code>timing.drain</code>. Clients keep their configuration and reconnect elsewhere.</li>
    <li>The snapshot is written, if one is configured, and the process exits with status 0.</li>
  </ol>
  <p class="dim">It cannot be undone. In Kubernetes the pod is restarted. In a terminal: <code>weir drain</code></p>
  ${draining ? html`<p class="note is-warn">This replica drains now.</p>` : html`<${Action} action="drain" label="Drain" danger path="/drain" question="Drain and end this replica?" />`}
</section>`;

export class Config extends Watching {
  render({ all }) {
    const o = live.overview;
    const ready = o?.ready;
    const path = `/config${query({ changed: !all })}`;
    return html`<${View} name="config" title="Configuration" json=${path}>
      ${o && html`<${Refused} c=${o.config} />
      <div class="columns">
        <section class="panel"><h3>Process <${Badge} state=${ready.ready ? 'good' : 'bad'}>${ready.state}<//></h3>
          ${ready.why && html`<p class="note">${ready.why}</p>`}
          <${Facts} of=${[
    ['Version', o.version], ['Up', html`<${Ago} at=${o.started} suffix=${false} />`], ['In force', html`<${Ago} at=${o.config.since} />`], ['File', o.config.file && html`<code>${o.config.file}</code>`],
    ['SHA-256', html`<code class="clip">${o.config.hash}</code>`],
    ['Memory', o.memory?.limit > 0 && html`${bytes(o.memory.used)} of ${bytes(o.memory.limit)}`],
    ...Object.entries(o.certificates ?? {}).map(([role, ends]) => [`Certificate, ${role}`, html`<${Ago} until=${ends} />`]),
  ]} />
          <p class="jump"><a href="/metrics">Metrics</a> <a href="/readyz">Ready</a> <a href="/origins">Origins</a> <a href="/groups">Groups</a>${page.profiles && html` <a href=${page.profiles}>Profiles</a>`}</p>
        </section>
        <${Snapshot} s=${o.snapshot} />
      </div>`}
      <section class="panel"><h3>In force, without secrets</h3>
        <label class="check"><input type="checkbox" name="changed" checked=${!all} onChange=${(e) => { location.hash = `#/config${query({ all: !e.target.checked })}`; }} />Only what differs from the default</label>
        <${Load} path=${path} text every=${10000}>${(text) => html`<${Code} text=${text} cls="yaml" />`}<//></section>
      <${Drain} draining=${ready?.state === 'draining'} />
    <//>`;
  }
}
