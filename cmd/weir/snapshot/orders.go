package snapshot

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Order is what an operator last said of going back to an earlier state, for one group of an origin
// or for all of them. A replica that starts goes by the newest one that it hears of.
type Order struct {
	Group string `json:"group,omitempty"` // its key; "": all groups of the origin
	// To is the state, as the one who gives the order wrote it down.
	To string `json:"to,omitempty"`
	By string `json:"by,omitempty"` // who said so
	// Since is since when the group is held there; zero: it is let go.
	Since time.Time `json:"since,omitzero"`
	// Changed is when the order was given.
	Changed time.Time `json:"changed,omitzero"`
}

// GateMemory is what the canary gate of a group has to know after a restart.
type GateMemory struct {
	Group string `json:"group"`           // its key
	Phase string `json:"phase,omitempty"` // as the gate calls it
	// Stopped is the ID of the state that was stopped, so that it does not become a candidate
	// again; "": none was.
	Stopped string `json:"stopped,omitempty"`
	// Since is when the phase began.
	Since time.Time `json:"since,omitzero"`
}

// Fields of Order and GateMemory.
const (
	orderGroup   = 1
	orderTo      = 2
	orderBy      = 3
	orderSince   = 4
	orderChanged = 5

	gateGroup   = 1
	gatePhase   = 2
	gateStopped = 3
	gateSince   = 4
)

// appendOrders appends orders, sorted, so that the same ones give the same bytes.
func appendOrders(b []byte, number protowire.Number, orders []Order) []byte {
	byGroup := func(x, y Order) int { return cmp.Compare(x.Group, y.Group) }
	for _, o := range slices.SortedStableFunc(slices.Values(orders), byGroup) {
		x := appendText(nil, orderGroup, o.Group)
		x = appendText(x, orderTo, o.To)
		x = appendText(x, orderBy, o.By)
		x = appendTime(x, orderSince, o.Since)
		b = appendBytes(b, number, appendTime(x, orderChanged, o.Changed))
	}
	return b
}

func readOrder(b []byte) (o Order, err error) {
	for f, err := range fields(b) {
		if err != nil {
			return o, err
		}
		switch f.number {
		case orderGroup:
			o.Group = f.text()
		case orderTo:
			o.To = f.text()
		case orderBy:
			o.By = f.text()
		case orderSince:
			o.Since = f.time()
		case orderChanged:
			o.Changed = f.time()
		}
	}
	return o, nil
}

// appendGates is appendOrders for the memory of gates.
func appendGates(b []byte, number protowire.Number, gates []GateMemory) []byte {
	byGroup := func(x, y GateMemory) int { return cmp.Compare(x.Group, y.Group) }
	for _, g := range slices.SortedStableFunc(slices.Values(gates), byGroup) {
		x := appendText(nil, gateGroup, g.Group)
		x = appendText(x, gatePhase, g.Phase)
		x = appendText(x, gateStopped, g.Stopped)
		b = appendBytes(b, number, appendTime(x, gateSince, g.Since))
	}
	return b
}

func readGate(b []byte) (g GateMemory, err error) {
	for f, err := range fields(b) {
		if err != nil {
			return g, err
		}
		switch f.number {
		case gateGroup:
			g.Group = f.text()
		case gatePhase:
			g.Phase = f.text()
		case gateStopped:
			g.Stopped = f.text()
		case gateSince:
			g.Since = f.time()
		}
	}
	return g, nil
}
