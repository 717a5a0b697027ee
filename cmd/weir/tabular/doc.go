// Package tabular writes the tables of the command line: columns that line up, cut to the width of
// the terminal, with colours where the terminal has them.
//
// A [Writer] collects rows and lays out one block at a time. A blank line or a line of one cell
// ends a block:
//
//	Row, Row, Row ─┐
//	               ├─ block: widths → cut to Style.Width → pad → colour
//	Line, Blank ───┘
//
// Every cell is shown by package visible, so no peer can move the cursor or begin another cell. The
// colours are added afterwards. Whoever writes the output must not escape it again.
//
// The package never finds out what it writes to: the caller knows the width and the colours.
//
// # Who imports it
//
// Package cmd/weir.
package tabular
