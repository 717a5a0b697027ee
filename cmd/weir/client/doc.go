// Package client is a small xDS client for people and demonstrations.
//
// # What it is
//
// [Dial] reaches one server; [Client.Watch] opens one ADS stream, in either
// dialect, and yields what the server answers. It acknowledges everything: it
// shows configuration and runs none, so it has no reason to reject any.
//
// # Who owns which goroutine
//
// None is started here. A stream belongs to the goroutine that ranges over
// Watch and ends with the loop or the context, whichever is first.
//
// # What a slow or broken server can do to us
//
// Keep the loop waiting until the context ends. A resource that cannot be read
// is yielded with its bytes and without its name.
//
// # Known limits
//
// Subscriptions are fixed for the life of a stream, one for each type, all names
// of which have the same dynamic parameters; a stream that ends is not reopened.
//
// # What to read next
//
// client.go, then watch.go.
package client
