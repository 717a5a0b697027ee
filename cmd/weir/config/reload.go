package config

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
)

// Reload says what a reload does with a change of a key.
type Reload string

// The values, as deploy/docs/configuration.md explains them.
const (
	// ReloadLive: no stream ends.
	ReloadLive Reload = "live"
	// ReloadNext: open streams keep their behavior.
	ReloadNext Reload = "new streams"
	// ReloadReconnect: the table's part of the origin stays.
	ReloadReconnect Reload = "reconnects"
	// ReloadConcerned: a client that reconnects is served by the new configuration.
	ReloadConcerned Reload = "ends streams"
	// ReloadAnew: the table's part of the origin is dropped.
	ReloadAnew Reload = "refetches"
	// ReloadRestart: the reload is refused.
	ReloadRestart Reload = "restart"
)

// ReloadOf returns what a reload does with a change at a path or key; "" if nothing says so, and it
// needs a restart. The tag reload says it of a key, and of all keys below it that say nothing else.
// Within lists, origins are identified by name and listeners by address: the tag each is for added
// and removed ones.
func ReloadOf(path string) (how Reload) {
	t, path := reflect.TypeFor[Config](), generic(path)
	for more := true; more && t.Kind() == reflect.Struct; {
		var key string
		key, path, more = strings.Cut(path, ".")
		key, element := strings.CutSuffix(key, "[]")
		f, known := fieldOf(t, key)
		if !known {
			return ""
		}
		how = cmp.Or(Reload(f.Tag.Get("reload")), how)
		if element && !more {
			how = cmp.Or(Reload(f.Tag.Get("each")), how)
		}
		for t = f.Type; t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice; {
			t = t.Elem()
		}
	}
	return how
}

// Changed returns the paths at which two configurations differ, without those of removed listeners
// and origins, in no particular order.
func (c *Config) Changed(before *Config) []string {
	d := difference{}
	d.value("", reflect.ValueOf(before).Elem(), reflect.ValueOf(c).Elem())
	return d.paths
}

// CheckReload returns, by line, the differences that need a restart.
func (c *Config) CheckReload(before *Config) error {
	src := c.report()
	r := &report{file: src.file, at: src.at}
	for _, path := range c.Changed(before) {
		if how := ReloadOf(path); how == ReloadRestart || how == "" {
			r.addf(path, "a reload cannot change this: restart weir for it")
		}
	}
	return r.err()
}

// Before returns the index of listener i in the configuration before; -1 if it is new. Listeners
// with port 0 are identified by their order.
func (c *Config) Before(before *Config, i int) int {
	nth := 0
	for j := range c.Listeners[:i] {
		if c.Listeners[j].Address == c.Listeners[i].Address {
			nth++
		}
	}
	for j := range before.Listeners {
		if before.Listeners[j].Address == c.Listeners[i].Address {
			if nth == 0 {
				return j
			}
			nth--
		}
	}
	return -1
}

// OriginNamed returns the origin with a name; nil if there is none.
func (c *Config) OriginNamed(name string) *Origin {
	for i := range c.Origins {
		if c.Origins[i].Name == name {
			return &c.Origins[i]
		}
	}
	return nil
}

// difference collects paths.
type difference struct{ paths []string }

func (d *difference) value(path string, a, b reflect.Value) {
	if c, ok := b.Addr().Interface().(*Config); ok {
		d.lists(a.Addr().Interface().(*Config), c)
	}
	switch b.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			if a.IsNil() != b.IsNil() {
				d.paths = append(d.paths, path)
			}
			return
		}
		d.value(path, a.Elem(), b.Elem())
	case reflect.Struct:
		for key, f := range keysOf(b.Type()) {
			if at := join(path, key); at != "listeners" && at != "origins" {
				d.value(at, a.FieldByIndex(f.Index), b.FieldByIndex(f.Index))
			}
		}
	default:
		if !same(a, b) {
			d.paths = append(d.paths, path)
		}
	}
}

// lists compares the elements with equal names.
func (d *difference) lists(a, b *Config) {
	kept := 0
	for i := range b.Listeners {
		path := fmt.Sprintf("listeners[%d]", i)
		if j := b.Before(a, i); j >= 0 {
			kept++
			d.value(path, reflect.ValueOf(&a.Listeners[j]).Elem(), reflect.ValueOf(&b.Listeners[i]).Elem())
		} else {
			d.paths = append(d.paths, path)
		}
	}
	if kept < len(a.Listeners) {
		d.paths = append(d.paths, "listeners[]")
	}
	kept = 0
	for i := range b.Origins {
		path := fmt.Sprintf("origins[%d]", i)
		if o := a.OriginNamed(b.Origins[i].Name); o != nil {
			kept++
			d.value(path, reflect.ValueOf(o).Elem(), reflect.ValueOf(&b.Origins[i]).Elem())
		} else {
			d.paths = append(d.paths, path)
		}
	}
	if kept < len(a.Origins) {
		d.paths = append(d.paths, "origins[]")
	}
}
