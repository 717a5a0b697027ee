package main

import (
	"errors"
	"maps"
	"slices"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/upstream/descriptors"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// describedTypes looks up messages in the configuration in force.
type describedTypes struct{ *process }

func (d describedTypes) types() *descriptors.Types { return d.active.Load().types }

// FindMessageByName implements downstream.Resolver.
func (d describedTypes) FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error) {
	return d.types().FindMessageByName(name)
}

// FindMessageByURL implements downstream.Resolver.
func (d describedTypes) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	return d.types().FindMessageByURL(url)
}

// FindExtensionByName implements downstream.Resolver.
func (d describedTypes) FindExtensionByName(name protoreflect.FullName) (protoreflect.ExtensionType, error) {
	return d.types().FindExtensionByName(name)
}

// FindExtensionByNumber implements downstream.Resolver.
func (d describedTypes) FindExtensionByNumber(
	of protoreflect.FullName, n protoreflect.FieldNumber,
) (protoreflect.ExtensionType, error) {
	return d.types().FindExtensionByNumber(of, n)
}

// readTypes reads the descriptor files of a configuration. Problems name the config key.
func readTypes(cfg *config.Config) (*descriptors.Types, error) {
	known, missing, err := checkTypes(cfg)
	return known, errors.Join(append(missing, err)...)
}

// checkTypes is readTypes for validate. For a file whose directory is missing it only warns: the
// file may exist where weir will run.
func checkTypes(cfg *config.Config) (known *descriptors.Types, warnings []error, err error) {
	var types []descriptors.Type
	for _, url := range slices.Sorted(maps.Keys(cfg.Types)) {
		t := cfg.Types[url]
		types = append(types, descriptors.Type{URL: url, NameField: t.NameField, File: t.Descriptors})
	}
	known, wrong := descriptors.Read(types)
	var errs []error
	for _, w := range wrong {
		key := ".name_field"
		if w.Descriptors {
			key = ".descriptors"
		}
		p := cfg.Problemf(config.TypePath(w.URL)+key, "%v", w.Err)
		if w.Descriptors && elsewhere(cfg.Types[w.URL].Descriptors) {
			p.Warning = true
			p.Msg += "; weir does not start without it"
			warnings = append(warnings, p)
			continue
		}
		errs = append(errs, p)
	}
	return known, warnings, errors.Join(errs...)
}
