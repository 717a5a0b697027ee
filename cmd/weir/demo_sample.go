package main

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

// sampleRoute is the name of the sample's route configuration.
const sampleRoute = "main"

// sample is the demonstration's configuration, and the sequence of its changes.
type sample struct {
	dir     string
	steps   int
	host    int    // host number of web's endpoint
	Search  bool   // the cluster exists
	timeout string // timeout of api
	prices  int    // host number of production's variant of the endpoints of prices
	Broken  bool   // clusters.yaml is invalid
}

func newSample(dir string) *sample { return &sample{dir: dir, host: 1, timeout: "1s", prices: 1} }

// step makes the next change and returns a sentence about it.
func (s *sample) step() (string, error) {
	sentence := ""
	switch s.steps % 6 {
	case 0:
		s.host = s.host%250 + 1
		sentence = fmt.Sprintf("the endpoints of web move to 10.0.0.%d", s.host)
	case 1:
		s.prices = s.prices%250 + 1
		sentence = fmt.Sprintf("production's variant of the endpoints of prices moves to 10.1.0.%d; staging should not hear of it", s.prices)
	case 2:
		s.Search = true
		sentence = "a cluster search is added, and a route to it"
	case 3:
		s.Search = false
		sentence = "the route and the cluster search are removed again"
	case 4:
		s.Broken = true
		sentence = "clusters.yaml is broken; the clients should notice nothing"
	case 5:
		s.Broken = false
		s.timeout = fmt.Sprintf("%ds", s.steps/6%9+2)
		sentence = "clusters.yaml is mended, and api's connect timeout is " + s.timeout
	}
	s.steps++
	return sentence, s.write()
}

// sampleFiles are the files of the sample, made of what has changed.
//
//go:embed demo/*.yaml
var sampleFiles embed.FS

var sampleTemplates = template.Must(template.ParseFS(sampleFiles, "demo/*.yaml"))

// write replaces the files by renaming, so that half a file is never read.
func (s *sample) write() error {
	for _, t := range sampleTemplates.Templates() {
		var text bytes.Buffer
		if err := t.Execute(&text, s); err != nil {
			return err
		}
		next := filepath.Join(s.dir, ".next")
		if err := os.WriteFile(next, text.Bytes(), 0o600); err != nil {
			return err
		}
		if err := os.Rename(next, filepath.Join(s.dir, t.Name())); err != nil {
			return err
		}
	}
	return nil
}

// sampleCluster is a cluster of the sample, with one endpoint.
type sampleCluster struct {
	Name, Timeout string
	Host          int // host number of its endpoint
}

// Clusters are those that exist.
func (s *sample) Clusters() []sampleCluster {
	all := []sampleCluster{{"api", s.timeout, 251}, {"web", "1s", s.host}}
	if s.Search {
		all = append(all, sampleCluster{"search", "1s", 252})
	}
	return all
}

// Variants are the addresses of prices, by the parameter env of clients.
func (s *sample) Variants() map[string]string {
	return map[string]string{"prod": fmt.Sprintf("10.1.0.%d", s.prices), "staging": "10.2.0.1"}
}
