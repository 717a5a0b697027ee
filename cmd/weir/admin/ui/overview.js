// The first view: the headline, the tiles, and the map from origins over groups to clients.
import { html, Ago, aged, num, percent, span, plural, links, rate } from './lib.js';
import { live, Watching } from './live.js';
import { getJSON } from './fetch.js';
import { View } from './parts.js';
import { Picker } from './replicas.js';
import { Flow, MapLegend, mostClients } from './map.js';

// Headline says how everything stands, and below what else is wrong.
function Headline({ o }) {
  const [first, ...others] = o.findings;
  return html`<section class="headline is-${o.state}">
    <p id="headline" data-state=${o.state}>${first?.link ? html`<a href=${first.link}>${aged(o.sentence)}</a>` : aged(o.sentence)}</p>
    ${others.length > 0 && html`<ul class="findings" aria-label="Also">${others.map((f) => html`<li key=${f.text} class="is-${f.state}">
      <i class="dot"></i>${f.link ? html`<a href=${f.link}>${aged(f.text)}</a>` : aged(f.text)}</li>`)}</ul>`}
  </section>`;
}

// Spark is a small line of the last hour.
function Spark({ values, from0 = true, label }) {
  if (!values || values.length < 2) return null;
  const low = from0 ? 0 : Math.min(...values);
  const high = Math.max(...values, low + 1e-9);
  const points = values.map((v, i) => `${((i / (values.length - 1)) * 100).toFixed(1)},${(22 - ((v - low) / (high - low)) * 20).toFixed(1)}`).join(' ');
  return html`<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label=${label}><polyline points=${points} /></svg>`;
}

function Tile({ name, href, state, value, unit, sub, children }) {
  return html`<a class="tile is-${state}" data-tile=${name} href=${href}>
    <span class="label">${name}</span>
    <span class="value num">${value}<small>${unit}</small></span>
    <span class="sub">${sub}</span>${children}
  </a>`;
}

function Tiles({ o, series }) {
  const held = o.held.reduce((n, h) => n + h.resources, 0);
  const frozen = o.held.filter((h) => h.by !== 'guard');
  const last = (column) => series?.[column]?.slice(-360);
  const deliveries = series?.deliveries_per_second?.at(-1);
  return html`<section class="tiles" aria-label="Numbers">
    <${Tile} name="In sync" href="#/clients" state=${o.unsynced ? (o.worst_lag_seconds > 10 ? 'warn' : 'good') : 'good'}
      value=${percent(o.in_sync_percent)} unit="%" sub=${o.unsynced ? `${num(o.unsynced)} of ${num(o.clients)} behind` : `${plural(o.clients, 'client')}`}>
      <${Spark} values=${last('in_sync_percent')} label="In sync in the last hour" /><//>
    <${Tile} name="Worst lag" href=${o.worst ? links.client(o.worst.node_id) : '#/clients'} state=${o.worst_lag_seconds > 60 ? 'bad' : o.worst_lag_seconds > 10 ? 'warn' : 'good'}
      value=${o.worst ? span(o.worst_lag_seconds) : '0s'} sub=${o.worst ? `${o.worst.node_id || o.worst.peer}, ${o.worst.type}` : 'no client waits'}>
      <${Spark} values=${last('worst_lag_seconds')} label="Worst lag in the last hour" /><//>
    <${Tile} name="Staleness" href=${o.stale ? links.origin(o.origins.find((x) => x.state === 'bad')?.name ?? '') : '#/charts'} state=${o.stale ? 'bad' : 'good'}
      value=${o.stale ? span(o.stale_seconds) : '0s'} sub=${o.stale ? plural(o.stale, 'stale resource') : 'no stale resource'} />
    <${Tile} name="Held back" href=${o.held.length ? links.origin(o.held[0].origin) : '#/history'} state=${o.held.length ? 'warn' : 'good'}
      value=${num(held)} sub=${o.held.length ? o.held.map((h) => `${h.origin} by ${h.by}`).join(', ') : frozen.length ? '' : 'no guard, no freeze'} />
    <${Tile} name="Rejecting" href="#/nacks" state=${o.nacking ? 'bad' : 'good'} value=${num(o.nacking)}
      sub=${o.nacking ? `${o.rejected?.type ?? ''} ${o.rejected?.resource ?? ''}` : 'no client rejects'} />
    <${Tile} name="Deliveries" href="#/charts" state="dim" value=${rate(deliveries)} unit="/s" sub=${`${rate(series?.changes_per_second?.at(-1))} changes/s`}>
      <${Spark} values=${last('deliveries_per_second')} label="Deliveries in the last hour" /><//>
  </section>`;
}

export class Overview extends Watching {
  componentDidMount() {
    super.componentDidMount();
    this.series();
    this.timer = setInterval(() => !document.hidden && this.series(), 10000);
  }
  componentWillUnmount() {
    super.componentWillUnmount();
    clearInterval(this.timer);
  }
  async series() {
    try {
      this.setState({ series: await getJSON('/series?since=1h') });
    } catch {
      // The stream says that the server is away; the lines wait.
    }
  }
  render(_, { series }) {
    const o = live.overview;
    if (!o) return html`<main id="view" data-view="overview" tabindex="-1"><p class="note dim" aria-busy="true">Loading</p></main>`;
    return html`<${View} name="overview" title="Overview" json="/overview"
      sub=${html`up ${html`<${Ago} at=${o.started} suffix=${false} />`}, ${plural(o.origins.length, 'origin')}, ${plural(o.origins.reduce((n, x) => n + x.groups, 0), 'group')}`}>
      <${Picker} />
      <${Headline} o=${o} />
      <${Tiles} o=${o} series=${series} />
      <section class="map" aria-label="Origins, groups and clients">
        ${o.origins.length > 0 && html`<${MapLegend} />`}
        ${o.origins.map((x) => html`<${Flow} key=${x.name} o=${x} most=${mostClients(o.origins)} changes=${series?.by_origin?.[x.name]?.changes_per_second?.at(-1) || 0} />`)}
        ${!o.origins.length && html`<p class="note">No origin is configured.</p>`}
      </section>
    <//>`;
  }
}

