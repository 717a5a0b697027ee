// Package visible shows what peers have chosen: names, node ids, versions, addresses, the details
// of errors. A terminal acts on control characters, and a person does not see characters without
// width and reads what is written from right to left as something else.
//
// Hidden characters are shown as JSON escapes them: \u202e. So are bytes that are no UTF-8, as
// \xff. Text that is JSON stays JSON, with the same meaning.
//
//   - [Text] is for a text in a line, such as a cell of a table.
//   - [Lines] is for text of several lines.
//   - [JSON] and [YAML] are for what programs read, too.
//   - [Writer] is for all that a command or a log prints, and leaves nothing hidden, whoever forgot
//     the others.
//
// It is pure, but for a Writer, which has a lock and writes.
//
// # Who imports it
//
// Package cmd/weir. The admin page has the same in lib.js.
package visible
