package main

import (
	"errors"
	"maps"
	"slices"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/upstream/descriptors"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// describedTypes finds messages by the configuration that is in force at the moment.
type describedTypes struct{ *process }

func (d describedTypes) types() *descriptors.Types { return d.active.Load().types }

// FindMessageByName is part of downstream.Resolver.
func (d describedTypes) FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error) {
	return d.types().FindMessageByName(name)
}

// FindMessageByURL is part of downstream.Resolver.
func (d describedTypes) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	return d.types().FindMessageByURL(url)
}

// FindExtensionByName is part of downstream.Resolver.
func (d describedTypes) FindExtensionByName(name protoreflect.FullName) (protoreflect.ExtensionType, error) {
	return d.types().FindExtensionByName(name)
}

// FindExtensionByNumber is part of downstream.Resolver.
func (d describedTypes) FindExtensionByNumber(
	of protoreflect.FullName, n protoreflect.FieldNumber,
) (protoreflect.ExtensionType, error) {
	return d.types().FindExtensionByNumber(of, n)
}

// readTypes reads the descriptors that a configuration names. What is wrong is told at its key.
func readTypes(cfg *config.Config) (*descriptors.Types, error) {
	known, missing, err := checkTypes(cfg)
	return known, errors.Join(append(missing, err)...)
}

// checkTypes is readTypes for who only wants to know what it is worth. Of a file whose whole
// directory is missing it warns: it may be there where weir will run.
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
