// Package file is an origin that is a file or a directory of files.
package file
