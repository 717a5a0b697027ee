package relay

import (
	"testing"
	"unsafe"

	"github.com/weir-xds/weir/relay/xds"
)

// TestSizes keeps what there are many of within the allocator's size classes they have: rare things
// belong behind a pointer.
func TestSizes(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the sizes are those of 64 bits")
	}
	for _, x := range []struct {
		name       string
		size, most uintptr
	}{
		{"record: one for each client and name", unsafe.Sizeof(record{}), 64},
		{"Sub: one for each client and type", unsafe.Sizeof(Sub{}), 352},
		{"position: one for each client of a set", unsafe.Sizeof(position{}), 144},
		{"Answer: one for each delivery", unsafe.Sizeof(Answer{}), 144},
		{"Body: one for each delivery", unsafe.Sizeof(Body{}), 112},
		{"item: one for each member of a view that has changed", unsafe.Sizeof(item{}), 64},
		{"member: one for each of a set", unsafe.Sizeof(member{}), 80},
		{"Variant: one for each body", unsafe.Sizeof(xds.Variant{}), 24},
		{"entry: one for each name", unsafe.Sizeof(entry{}), 192},
	} {
		if x.size > x.most {
			t.Errorf("%s, takes %d bytes, more than %d", x.name, x.size, x.most)
		}
	}
}
