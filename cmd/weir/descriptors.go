package main

import (
	"errors"
	"maps"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/upstream/descriptors"
)

// describedTypes is a downstream.Resolver by the configuration in force.
type describedTypes struct{ *process }

func (d describedTypes) types() *descriptors.Types { return d.active.Load().types }

func (d describedTypes) FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error) {
	return d.types().FindMessageByName(name)
}

func (d describedTypes) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	return d.types().FindMessageByURL(url)
}

func (d describedTypes) FindExtensionByName(name protoreflect.FullName) (protoreflect.ExtensionType, error) {
	return d.types().FindExtensionByName(name)
}

func (d describedTypes) FindExtensionByNumber(
	of protoreflect.FullName, n protoreflect.FieldNumber,
) (protoreflect.ExtensionType, error) {
	return d.types().FindExtensionByNumber(of, n)
}

// readTypes reads the descriptor files of a configuration. Problems name the config key.
func readTypes(cfg *config.Config) (*descriptors.Types, error) {
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
		errs = append(errs, cfg.Problemf(config.TypePath(w.URL)+key, "%v", w.Err))
	}
	return known, errors.Join(errs...)
}
