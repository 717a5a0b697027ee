package farm

import "time"

// Micros is CPU time of one core, in microseconds.
type Micros float64

func (x Micros) duration() time.Duration {
	return time.Duration(float64(x) * float64(time.Microsecond))
}

// of is the time for so many bytes, where x is that for 1,024.
func (x Micros) of(bytes int) time.Duration {
	return Micros(float64(x) * float64(bytes) / 1024).duration()
}

// Costs are what a weir's core needs for what it does. `bench growth` measures them.
type Costs struct {
	Delivery  Micros `json:"delivery_us"`     // one response to one client, with its ACK
	KiB       Micros `json:"sent_us_per_kib"` // of it
	Change    Micros `json:"change_us"`       // one response from above, for each group
	ChangeKiB Micros `json:"read_us_per_kib"` // of it
	Connect   Micros `json:"connect_us"`      // a client that comes, besides what it is sent
	Client    Micros `json:"client_us"`       // a delivery at the client, where it shares the cores
}

// UsualCosts are those of the machine that deploy/docs/scale.md names, rounded.
var UsualCosts = Costs{Delivery: 38, KiB: 0.4, Change: 240, ChangeKiB: 5, Connect: 250, Client: 40}
