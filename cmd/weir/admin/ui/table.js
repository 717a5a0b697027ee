// Tables: on a phone each row is a card without what is minor. A head sorts its column.
import { html, Component } from './lib.js';

const missing = (v) => [undefined, null, false, ''].includes(v);

// compare puts numbers by their size, and texts as people count: a2 before a10.
const compare = (a, b) => (typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), 'en', { numeric: true }));

// sorted are the rows by a column; those that have nothing in it come last in both directions.
function sorted(rows, column, down) {
  if (!column) return rows;
  const pairs = rows.map((row) => ({ row, value: column.sort(row) }));
  const [some, none] = [pairs.filter((x) => !missing(x.value)), pairs.filter((x) => missing(x.value))];
  some.sort((a, b) => (down ? compare(b.value, a.value) : compare(a.value, b.value)));
  return [...some, ...none].map((x) => x.row);
}

// Table shows rows in their order until a head is pressed: once for the column, again for the other
// direction, a third time for the order in which they came. A column is {head, cell(row), sort(row),
// num, wide, minor}; without sort it cannot be sorted. One that has nothing in any row is left out.
// Row attributes are from `attrs`. `onSort` is told whether rows are sorted. j, k and the arrows
// move in it, Enter opens (keys.js).
export class Table extends Component {
  constructor(props) {
    super(props);
    this.state = { by: '', down: false };
  }
  // pressed is the state after a head was pressed. Numbers begin with the largest.
  pressed(column) {
    const { by, down } = this.state;
    const first = Boolean(column.num);
    if (by !== column.head) return { by: column.head, down: first };
    return down === first ? { by, down: !first } : { by: '', down: false };
  }
  sort(next) {
    this.setState(next);
    this.props.onSort?.(Boolean(next.by));
  }
  head(c) {
    const { by, down } = this.state;
    if (!c.sort) return html`<th scope="col" class=${c.num ? 'num' : ''}>${c.head}</th>`;
    const order = by !== c.head ? 'none' : down ? 'descending' : 'ascending';
    return html`<th scope="col" class=${c.num ? 'num' : ''} aria-sort=${order}>
      <button type="button" class="sort" onClick=${() => this.sort(this.pressed(c))}>${c.head}<i aria-hidden="true">${{ none: '↕', ascending: '↑', descending: '↓' }[order]}</i></button></th>`;
  }
  // Choice sorts where there are no heads, on a phone.
  choice(columns, label) {
    const { by, down } = this.state;
    const pick = (value) => { const [head, way] = value.split('\n'); this.sort({ by: head, down: way === 'down' }); };
    return html`<label class="sort-choice">Sort by<select name="sort" aria-label=${`Sort ${label ?? 'rows'} by`} onChange=${(e) => pick(e.target.value)}>
      <option value="" selected=${!by}>default order</option>
      ${columns.filter((c) => c.sort).map((c) => [false, true].map((way) => html`<option key=${c.head + way} value=${`${c.head}\n${way ? 'down' : 'up'}`}
        selected=${by === c.head && down === way}>${c.head} ${way ? '↓' : '↑'}</option>`))}</select></label>`;
  }
  render({ columns: all, rows, attrs, label, empty, href }, { by, down }) {
    if (!rows.length) return html`<p class="note dim">${empty || 'Nothing.'}</p>`;
    const columns = all.filter((c) => rows.some((row) => !missing(c.cell(row))));
    return html`<div class="table-box">${rows.length > 1 && columns.some((c) => c.sort) && this.choice(columns, label)}
      <table class="cards" aria-label=${label}>
      <thead><tr>${columns.map((c) => this.head(c))}</tr></thead>
      <tbody>${sorted(rows, columns.find((c) => c.head === by), down).map((row, i) => {
    const to = href?.(row);
    return html`<tr key=${attrs?.(row)?.key ?? i} ...${attrs?.(row)} class=${to ? 'row opens' : 'row'} tabindex=${to ? 0 : undefined} data-href=${to}>
          ${columns.map((c) => html`<td data-head=${c.head} class=${['num', 'wide', 'minor'].filter((k) => c[k]).join(' ')}>${c.cell(row)}</td>`)}
        </tr>`;
  })}</tbody>
    </table></div>`;
  }
}
