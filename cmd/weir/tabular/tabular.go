package tabular

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/weir-xds/weir/cmd/weir/visible"
)

// Style says what the output can show.
type Style struct {
	// Width is the number of columns; 0: nothing is cut.
	Width int
	// Color allows escape sequences for colours.
	Color bool
}

// Color is the colour of a cell: what an SRE expects of a state.
type Color string

// The colours. Plain is that of all other text.
const (
	Plain  Color = ""
	Red    Color = "31" // broken
	Yellow Color = "33" // to be looked at
	Green  Color = "32" // well
)

// Cell is a value with a colour.
type Cell struct {
	Value any
	Color Color
}

const (
	// gap is the number of spaces between columns.
	gap = 2
	// narrowest is the width below which a column is not cut, if its heading is not wider.
	narrowest = 6
	// stateWord is the width of the longest state. So much of a cell with a colour always stays.
	stateWord = 14
	// ellipsis marks what was cut.
	ellipsis = "…"
	// empty stands for an empty cell.
	empty = "-"
)

// Writer writes tables. It keeps the first error for Flush.
type Writer struct {
	to    io.Writer
	style Style
	rows  []row // of the block
	err   error
}

// row is a line of a block.
type row struct {
	cells []cell
	// prose: the last cell is a sentence, which continues on the next lines.
	prose bool
}

// cell is a value as it is shown.
type cell struct {
	text  string
	color Color
}

func (c cell) width() int { return utf8.RuneCountInString(c.text) }

// New makes a Writer.
func New(to io.Writer, style Style) *Writer { return &Writer{to: to, style: style} }

// Row adds a line of the table. On a terminal its cells are cut where the table is too wide.
func (w *Writer) Row(cells ...any) { w.add(row{cells: shown(cells)}) }

// Prose is Row for a line whose last cell is a sentence: that is never cut.
func (w *Writer) Prose(cells ...any) { w.add(row{cells: shown(cells), prose: true}) }

func (w *Writer) add(r row) {
	if len(r.cells) > 1 {
		w.rows = append(w.rows, r)
		return
	}
	w.block()
	for _, c := range r.cells {
		w.write(painted(c, w.style) + "\n")
	}
}

// Blank ends a table with an empty line.
func (w *Writer) Blank() {
	w.block()
	w.write("\n")
}

// Flush writes the rest, and returns the first error.
func (w *Writer) Flush() error {
	w.block()
	return w.err
}

func (w *Writer) write(text string) {
	if w.err == nil {
		_, w.err = io.WriteString(w.to, text)
	}
}

// shown makes cells of values.
func shown(values []any) []cell {
	cells := make([]cell, len(values))
	for i, v := range values {
		color := Plain
		if c, is := v.(Cell); is {
			v, color = c.Value, c.Color
		}
		text := visible.Text(fmt.Sprint(v))
		if text == "" {
			text, color = empty, Plain
		}
		cells[i] = cell{text, color}
	}
	return cells
}

// block lays out the rows since the last one.
func (w *Writer) block() {
	if len(w.rows) == 0 {
		return
	}
	widths := w.widths()
	var out strings.Builder
	for i := range w.rows {
		w.rows[i].write(&out, widths, w.style)
	}
	w.rows = nil
	w.write(out.String())
}

// widths returns the widths of the columns. A sentence has none.
func (w *Writer) widths() []int {
	var natural, least []int
	for i := range w.rows {
		r := &w.rows[i]
		for j, c := range r.cells {
			if r.prose && j == len(r.cells)-1 {
				break
			}
			if j == len(natural) {
				natural, least = append(natural, 0), append(least, 0)
			}
			natural[j] = max(natural[j], c.width())
			switch {
			case i == 0: // a heading
				least[j] = c.width()
			case c.color != Plain:
				least[j] = max(least[j], min(c.width(), stateWord))
			}
			least[j] = min(natural[j], max(least[j], narrowest))
		}
	}
	if w.style.Width == 0 {
		return natural
	}
	return fit(natural, least, w.style.Width-gap*(len(natural)-1))
}

// fit cuts the widest columns to one width, until all fit into so many columns.
func fit(natural, least []int, most int) []int {
	total, widest := 0, 0
	for _, n := range natural {
		total, widest = total+n, max(widest, n)
	}
	widths := append([]int(nil), natural...)
	for limit := widest - 1; total > most && limit >= narrowest; limit-- {
		for i := range widths {
			if widths[i] > limit && widths[i] > least[i] && total > most {
				widths[i], total = widths[i]-1, total-1
			}
		}
	}
	return widths
}

// write adds a line, or several of a sentence.
func (r *row) write(out *strings.Builder, widths []int, style Style) {
	at, last := 0, len(r.cells)-1
	for i, c := range r.cells[:last] {
		c = c.cut(widths[i])
		out.WriteString(painted(c, style))
		at += widths[i] + gap
		out.WriteString(strings.Repeat(" ", widths[i]+gap-c.width()))
	}
	c := r.cells[last]
	if !r.prose {
		out.WriteString(painted(c.cut(widths[last]), style) + "\n")
		return
	}
	for i, line := range wrapped(c.text, style.Width-at) {
		if i > 0 {
			out.WriteString(strings.Repeat(" ", at))
		}
		out.WriteString(painted(cell{line, c.color}, style) + "\n")
	}
}

// cut returns a cell of at most so many columns.
func (c cell) cut(width int) cell {
	if c.width() > width {
		c.text = string([]rune(c.text)[:max(width-1, 0)]) + ellipsis
	}
	return c
}

// wrapped splits a sentence into lines of at most so many columns, between words. A sentence that
// would become a narrow strip stays on one line.
func wrapped(text string, width int) (lines []string) {
	const strip = 20
	if width < strip || utf8.RuneCountInString(text) <= width {
		return []string{text}
	}
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// painted is a cell in its colour.
func painted(c cell, style Style) string {
	if !style.Color || c.color == Plain {
		return c.text
	}
	return "\x1b[" + string(c.color) + "m" + c.text + "\x1b[0m"
}
