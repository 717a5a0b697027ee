// Package downstream serves discovery streams to clients.
package downstream
