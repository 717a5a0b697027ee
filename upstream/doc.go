// Package upstream speaks ADS to one origin over gRPC, in either dialect, on behalf of the table (package relay).
package upstream
