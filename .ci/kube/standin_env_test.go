package kube

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// reference is $(NAME), or $$ for a dollar.
var reference = regexp.MustCompile(`\$\$|\$\([A-Za-z_.\-][A-Za-z0-9_.\-]*\)`)

// expand puts variables into what a container's arguments and values say. Unknown ones stay.
func expand(text string, env map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		if found == "$$" {
			return "$"
		}
		if value, ok := env[found[2:len(found)-1]]; ok {
			return value
		}
		return found
	})
}

// environment is what the container's process has, besides HOSTNAME and PATH.
func (c *container) environment() (map[string]string, error) {
	p := c.pod
	env := map[string]string{"HOSTNAME": p.name, "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	for _, from := range c.spec.EnvFrom {
		values := map[string]string{}
		switch {
		case from.ConfigMapRef != nil:
			m := p.kubelet.configMaps.get(p.namespace, from.ConfigMapRef.Name)
			if m == nil && !optional(from.ConfigMapRef.Optional) {
				return nil, fmt.Errorf("configmap %q not found", from.ConfigMapRef.Name)
			}
			if m != nil {
				maps.Copy(values, m.Data)
			}
		case from.SecretRef != nil:
			s := p.kubelet.secrets.get(p.namespace, from.SecretRef.Name)
			if s == nil && !optional(from.SecretRef.Optional) {
				return nil, fmt.Errorf("secret %q not found", from.SecretRef.Name)
			}
			if s != nil {
				for key, value := range s.Data {
					values[key] = string(value)
				}
			}
		}
		for key, value := range values {
			env[from.Prefix+key] = value
		}
	}
	for _, v := range c.spec.Env {
		value, err := c.value(v, env)
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", v.Name, err)
		}
		if value != nil {
			env[v.Name] = *value
		}
	}
	return env, nil
}

func optional(b *bool) bool { return b != nil && *b }

// value is nil for what is optional and not there.
func (c *container) value(v corev1.EnvVar, env map[string]string) (*string, error) {
	from, k, namespace := v.ValueFrom, c.pod.kubelet, c.pod.namespace
	switch {
	case from == nil:
		value := expand(v.Value, env)
		return &value, nil
	case from.FieldRef != nil:
		value, err := c.pod.field(from.FieldRef.FieldPath)
		return &value, err
	case from.ConfigMapKeyRef != nil:
		if m := k.configMaps.get(namespace, from.ConfigMapKeyRef.Name); m != nil {
			if value, ok := m.Data[from.ConfigMapKeyRef.Key]; ok {
				return &value, nil
			}
		}
		if optional(from.ConfigMapKeyRef.Optional) {
			return nil, nil
		}
		return nil, fmt.Errorf("configmap %q has no key %q", from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key)
	case from.SecretKeyRef != nil:
		if s := k.secrets.get(namespace, from.SecretKeyRef.Name); s != nil {
			if raw, ok := s.Data[from.SecretKeyRef.Key]; ok {
				value := string(raw)
				return &value, nil
			}
		}
		if optional(from.SecretKeyRef.Optional) {
			return nil, nil
		}
		return nil, fmt.Errorf("secret %q has no key %q", from.SecretKeyRef.Name, from.SecretKeyRef.Key)
	case from.ResourceFieldRef != nil:
		return c.resource(from.ResourceFieldRef)
	}
	return nil, fmt.Errorf("the stand-in does not know this source")
}

// resource is a limit or a request of the container.
func (c *container) resource(ref *corev1.ResourceFieldSelector) (*string, error) {
	list, name := c.spec.Resources.Limits, strings.TrimPrefix(ref.Resource, "limits.")
	if strings.HasPrefix(ref.Resource, "requests.") {
		list, name = c.spec.Resources.Requests, strings.TrimPrefix(ref.Resource, "requests.")
	}
	quantity, ok := list[corev1.ResourceName(name)]
	if !ok {
		return nil, fmt.Errorf("the container has no %s", ref.Resource)
	}
	value := fmt.Sprint(quantity.Value())
	if divisor := ref.Divisor.Value(); divisor > 1 {
		value = fmt.Sprint((quantity.Value() + divisor - 1) / divisor)
	}
	return &value, nil
}

// keyed are labels and annotations by their keys.
var keyed = regexp.MustCompile(`^metadata\.(labels|annotations)\['([^']+)'\]$`)

// field is a value of the downward API.
func (p *pod) field(path string) (string, error) {
	o := p.object.Load()
	fields := map[string]string{
		"metadata.name": p.name, "metadata.namespace": p.namespace, "metadata.uid": string(o.UID),
		"spec.nodeName": o.Spec.NodeName, "spec.serviceAccountName": o.Spec.ServiceAccountName,
		"status.podIP": p.address.String(), "status.podIPs": p.address.String(), "status.hostIP": gateway,
	}
	if value, ok := fields[path]; ok {
		return value, nil
	}
	if m := keyed.FindStringSubmatch(path); m != nil {
		if m[1] == "labels" {
			return o.Labels[m[2]], nil
		}
		return o.Annotations[m[2]], nil
	}
	return "", fmt.Errorf("the stand-in does not know the field %s", path)
}

// list is an environment as a process takes it.
func list(env map[string]string) (lines []string) {
	for _, key := range slices.Sorted(maps.Keys(env)) {
		lines = append(lines, key+"="+env[key])
	}
	return lines
}
