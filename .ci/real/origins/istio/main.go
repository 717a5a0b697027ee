// istio is istio's discovery server on loopback, without Kubernetes: the one that istio's own tests
// of xDS use. Its only argument is the port. Each line of its input is istio configuration, YAML in
// base64, and all that the server is to have. It prints "published" for each, for the first once
// clients can ask.
package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"log"
	"os"
	"time"

	"istio.io/istio/pilot/pkg/config/kube/crd"
	"istio.io/istio/pilot/pkg/features"
	"istio.io/istio/pkg/config"
)

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	if len(os.Args) != 2 {
		log.Fatal("usage: istio PORT")
	}
	// Filters that only istio's own build of Envoy has.
	features.ALPNFilter = false
	features.MetadataExchange = false

	var s *server
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		wanted, err := parse(lines.Text())
		switch {
		case err != nil:
		case s == nil:
			s = serve(os.Args[1], wanted)
		default:
			err = s.publish(wanted)
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("published")
	}
}

// created is when everything was, in every run: Kubernetes keeps it over restarts of istio, which
// sorts by it.
var created = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// parse is the resources of a line of input.
func parse(line string) ([]config.Config, error) {
	text, err := base64.StdEncoding.DecodeString(line)
	if err != nil {
		return nil, err
	}
	all, rest, err := crd.ParseInputs(string(text))
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("resources that istio does not know: %v", rest)
	}
	for i := range all {
		all[i].CreationTimestamp = created
	}
	return all, err
}
