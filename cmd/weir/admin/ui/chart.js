// Charts by uPlot, which is loaded when the first is shown.
import { html, Component } from './lib.js';

let library = null;
const load = () => {
  library ??= import('./vendor/uplot.js').then((m) => m.default);
  return library;
};

// colour is a colour of the style sheet, so that charts are as dark or light as the page.
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const height = 180;
const dark = matchMedia('(prefers-color-scheme: dark)');

// hours is a time of day.
const hours = (t, seconds) => new Date(t * 1000).toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit', second: seconds ? '2-digit' : undefined, hour12: false });

// Legend has the values where the pointer is, or else the last ones.
function Legend({ title, at, lines, format, index }) {
  const i = index ?? at.length - 1;
  return html`<figcaption><b>${title}</b>
    ${lines.map(([name, colour, values]) => html`<span key=${name} class="key">${lines.length > 1 && html`<i class=${`swatch line-${colour}`}></i>${name} `}<span class="num">${values[i] === null || values[i] === undefined ? '' : format(values[i])}</span></span>`)}
    <span class="when dim num">${index !== null && at[i] ? hours(at[i], true) : ''}</span></figcaption>`;
}

const plain = (v) => String(Math.round(v * 100) / 100);

// Steps between the lines of the value axis: whole numbers, seconds to days, and powers of two for
// bytes.
export const wholes = Array.from({ length: 10 }, (_, i) => [1, 2, 5].map((n) => n * 10 ** i)).flat();
export const spans = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800];
export const twos = Array.from({ length: 42 }, (_, i) => 2 ** i);

// Chart is one chart. Lines are [name, colour, values]; format makes a value a text; steps are those
// of the value axis, if not any.
export class Chart extends Component {
  constructor(props) {
    super(props);
    this.state = { index: null };
  }
  componentDidMount() {
    this.draw = () => this.make();
    dark.addEventListener('change', this.draw);
    this.size = new ResizeObserver(() => this.plot?.setSize({ width: this.box.clientWidth, height }));
    this.size.observe(this.box);
    this.make();
  }
  componentWillUnmount() {
    this.gone = true;
    dark.removeEventListener('change', this.draw);
    this.size.disconnect();
    this.plot?.destroy();
  }
  componentDidUpdate(before) {
    const names = (lines) => lines.map(([name]) => name).join();
    if (this.plot && names(before.lines) === names(this.props.lines)) this.redraw(before);
    else this.make();
  }
  // redraw draws what is new, and nothing where the legend alone has changed.
  redraw(before) {
    if (before.at !== this.props.at) this.plot.setData(this.data());
  }
  // data has what uPlot draws. Bars stand on one another; the first line is the top.
  data() {
    const { at, lines, bars } = this.props;
    const values = lines.map(([, , all]) => all);
    if (!bars) return [at, ...values];
    return [at, ...values.map((all, i) => all.map((v, j) => {
      const sum = values.slice(i).reduce((n, below) => n + below[j], 0);
      return v > 0 ? sum : null;
    }))];
  }
  async make() {
    const UPlot = await load();
    if (this.gone) return;
    this.plot?.destroy();
    const { lines, bars, format = plain, max, steps } = this.props;
    const axis = { stroke: colour('dim'), grid: { stroke: colour('line'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
    this.plot = new UPlot({
      width: this.box.clientWidth,
      height,
      padding: [8, 8, 0, 0],
      cursor: { points: { size: 6 }, drag: { x: false, y: false } },
      legend: { show: false },
      hooks: { setCursor: [(u) => u.cursor.idx !== this.state.index && this.setState({ index: u.cursor.idx ?? null })] },
      // Half a bar has room at each end.
      scales: { x: !bars ? {} : { range: (u, low, high) => { const half = (u.data[0][1] - u.data[0][0]) / 2 || 30; return [low - half, high + half]; } }, y: { range: (_, low, high) => [0, max ?? Math.max(high * 1.1, 1)] } },
      axes: [{ ...axis, size: 28, space: 70, values: (_, all) => all.map((t) => hours(t, all.length > 1 && all[1] - all[0] < 60)) }, { ...axis, size: 56, incrs: steps, values: (_, all) => all.map((v) => format(v)) }],
      series: [{},
        ...lines.map(([label, name]) => ({
          label,
          stroke: colour(name),
          width: 1.5,
          fill: bars ? colour(name) : lines.length === 1 ? `${colour(name)}22` : undefined,
          paths: bars ? UPlot.paths.bars({ size: [0.7, 24] }) : UPlot.paths.linear(),
          points: { show: false },
          spanGaps: false,
        }))],
    }, this.data(), this.box);
  }
  render({ title, at, lines, format = plain }, { index }) {
    return html`<figure class="chart"><${Legend} title=${title} at=${at} lines=${lines} format=${format} index=${index} /><div ref=${(e) => { this.box = e ?? this.box; }} class="plot"></div></figure>`;
  }
}
