// What all views share: the view library, formats of numbers and times, links.
import { h, Component, render, Fragment } from './vendor/preact.js';
import htm from './vendor/htm.js';

// hidden are characters that nobody sees, or that change how others are shown: control characters,
// the direction of writing, spaces other than the common one, and what has no width. Go has the same
// in package visible.
const hidden = /(?![ \n])[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]/gu;

// visible is a text with what is hidden in it shown, as \u202e.
export const visible = (text) => text.replace(hidden, (c) => (c === '\t' ? '\\t'
  : c.split('').map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')));

const shown = (x) => (typeof x === 'string' ? visible(x) : Array.isArray(x) ? x.map(shown) : x);

// element makes a node of which all text is visible, its title and label included. Other attributes
// are for programs.
function element(type, attributes, ...children) {
  const a = attributes && typeof type === 'string' ? { ...attributes } : attributes;
  if (a !== attributes) for (const key of ['title', 'aria-label']) if (typeof a[key] === 'string') a[key] = visible(a[key]);
  return h(type, a, ...children.map(shown));
}

// html makes nodes. Text in it is text, whatever it contains: peers choose node ids and messages.
export const html = htm.bind(element);
export { Component, render, Fragment };

const head = document.documentElement.dataset;
export const page = {
  name: head.name,
  version: head.version,
  signedIn: head.signedIn === 'true',
  replicas: head.replicas, // where they are, if some are known
  profiles: head.profiles, // where they are, if they are served
};

// enc is a text as a part of a URL.
export const enc = encodeURIComponent;

// query is the text after the question mark; empty values are left out.
export function query(values) {
  const parts = Object.entries(values)
    .filter(([, v]) => v !== undefined && v !== null && v !== '' && v !== false)
    .map(([k, v]) => `${enc(k)}=${enc(v === true ? 1 : v)}`);
  return parts.length ? `?${parts.join('&')}` : '';
}

export const links = {
  origin: (name) => `#/origins/${enc(name)}`,
  group: (origin, key) => `#/groups/${enc(origin)}/${enc(key)}`,
  clients: (filter = {}) => `#/clients${query(filter)}`,
  client: (id) => (id ? `#/clients/${enc(id)}` : '#/clients'),
  resources: (filter = {}) => `#/resources${query(filter)}`,
  resource: (r) => `#/resource${query({ origin: r.origin, group: r.group, type: typeOf(r), name: r.name })}`,
};

const whole = new Intl.NumberFormat('en');
export const num = (n) => whole.format(n ?? 0);

export function plural(n, one, many = `${one}s`) {
  return `${num(n)} ${n === 1 ? one : many}`;
}

// percent never rounds up to 100: one client of ten thousand counts.
export function percent(p) {
  if (p >= 100) return '100';
  return (Math.floor(p * 10) / 10).toFixed(p >= 10 && p < 99 ? 0 : 1);
}

export function bytes(n) {
  if (n < 1024) return `${Math.round(n)} B`;
  for (const unit of ['KiB', 'MiB', 'GiB']) {
    n /= 1024;
    if (n < 1024 || unit === 'GiB') return `${n.toFixed(n < 10 ? 1 : 0)} ${unit}`;
  }
  return '';
}

export function rate(n) {
  if (!n) return '0';
  return n < 10 ? n.toFixed(1) : num(Math.round(n));
}

// span is a length of time in words as short as they can be.
export function span(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${s % 60}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${Math.floor((s % 3600) / 60)}m`;
  return `${Math.floor(s / 86400)}d ${Math.floor((s % 86400) / 3600)}h`;
}

// setTitle sets the title of the tab.
export function setTitle(words) {
  document.title = words.map(shown).join(' · ');
}

// skew is how far this machine's clock is ahead of the server's, in milliseconds.
let skew = 0;
export function setClock(serverTime) {
  const ahead = Date.now() - Date.parse(serverTime);
  // What the way took is in it as well; half a second does not matter.
  skew = Math.abs(ahead) < 500 ? 0 : ahead;
}
export const now = () => Date.now() - skew;

// isTime is false of Go's zero time, and of none.
export const isTime = (t) => Boolean(t) && !t.startsWith('0001-');

// Some languages put narrow spaces, or marks of direction, into times.
const ours = (text) => text.replace(hidden, ' ');

export const clock = (t) => ours(new Date(t).toLocaleString(undefined, {
  month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false,
}));

export const hour = (t) => ours(new Date(t).toLocaleTimeString(undefined, { hour12: false }));

// utc is a time as weir's logs and sentences have it.
export const utc = (t) => new Date(t).toISOString().replace('T', ' ').replace(/\.\d+/, '');

// Ago is a relative time that ticks; its title is the time in UTC.
const ticking = new Set();
setInterval(() => ticking.forEach((c) => c.forceUpdate()), 1000);

export class Ago extends Component {
  componentDidMount() { ticking.add(this); }
  componentWillUnmount() { ticking.delete(this); }
  render({ at, until, suffix = true, none = 'never' }) {
    const t = until || at;
    if (!isTime(t)) return html`<span class="dim">${none}</span>`;
    const passed = (now() - Date.parse(t)) / 1000;
    const text = until ? `for ${span(-passed)}` : passed <= -1 ? `in ${span(-passed)}` : passed < 1 && suffix ? 'now' : `${span(passed)}${suffix ? ' ago' : ''}`;
    return html`<time class="num" datetime=${t} title=${`${utc(t)}, local time ${clock(t)}`}>${text}</time>`;
  }
}

const stamp = /\b(?:(since|at|until) )?(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\dZ)/g;

// aged is a sentence of the server with ages in place of its times: "since 2026-..." is "for 5m".
export function aged(text) {
  const parts = [];
  let from = 0;
  for (const m of text.matchAll(stamp)) {
    const at = `${m[2]}T${m[3]}`;
    parts.push(text.slice(from, m.index));
    parts.push({
      since: html`for <${Ago} at=${at} suffix=${false} />`, until: html`<${Ago} until=${at} /> more`,
    }[m[1]] ?? html`<${Ago} at=${at} />`);
    from = m.index + m[0].length;
  }
  return [...parts, text.slice(from)];
}

// typeOf is the type of something as queries take it: types without a short name have their URL.
export const typeOf = (x) => (x.type === 'other' && x.type_url ? x.type_url : x.type);

// typeName is the same as people read it.
export const typeName = (x) => (x.type === 'other' && x.type_url ? x.type_url.split('.').pop() : x.type);
