// Package client is a small xDS client for the command line and the demonstration.
//
// # What it is
//
// [Dial] prepares a connection to one server. [Client.Watch] opens one ADS stream, in either
// dialect, and yields the server's responses. It acknowledges all of them: it shows configuration
// and runs none, so it has no reason to reject any.
//
// # Who owns which goroutine
//
// None is started here. A stream belongs to the goroutine that ranges over Watch, and ends with the
// loop or the context, whichever is first.
//
// # What a slow or broken server can do to us
//
// Keep the loop waiting until the context ends. A resource that does not decode is yielded with its
// bytes and without its name.
//
// # Known limits
//
// Subscriptions are fixed for the life of a stream. There is one for each type, and all its names
// have the same dynamic parameters. A stream that ends is not reopened.
//
// # Who imports it
//
// Package cmd/weir.
//
// # What to read next
//
// client.go, then response.go.
package client
