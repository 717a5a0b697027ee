package config

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// scalars parse text into each type of a single value. Only the Go type decides, not YAML's guess:
// a port may be quoted, a token may look like a number, and a variable has no YAML type.
var scalars = map[reflect.Type]func(reflect.Value, string) error{
	reflect.TypeFor[string]():        readString,
	reflect.TypeFor[bool]():          readBool,
	reflect.TypeFor[int]():           readInt,
	reflect.TypeFor[float64]():       readFloat,
	reflect.TypeFor[Bytes]():         readBytes,
	reflect.TypeFor[time.Duration](): readDuration,
	reflect.TypeFor[fs.FileMode]():   readMode,
}

func (d *decoder) scalar(path string, n *yaml.Node, v reflect.Value, read func(reflect.Value, string) error) {
	if !d.isKind(path, n, yaml.ScalarNode) {
		return
	}
	text, err := expand(n.Value, d.env, maxFile-d.spent)
	d.spent += len(text)
	if err != nil {
		d.addf(path, "%v", err)
		return
	}
	if err := read(v, text); err != nil {
		// A variable may hold a secret that was meant for another key, so the message quotes the
		// file's text, not its value.
		d.addf(path, "%q %v", n.Value, err)
	}
}

func readString(v reflect.Value, s string) error {
	v.SetString(s)
	return nil
}

func readBool(v reflect.Value, s string) error {
	if s != "true" && s != "false" {
		return errors.New("is neither true nor false")
	}
	v.SetBool(s == "true")
	return nil
}

func readInt(v reflect.Value, s string) error {
	n, err := strconv.Atoi(s)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return errors.New("is too large")
	case err != nil:
		return errors.New("is not a whole number")
	case n < 0:
		return errors.New("must not be negative")
	}
	v.SetInt(int64(n))
	return nil
}

func readFloat(v reflect.Value, s string) error {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return errors.New("is not a number")
	}
	if f < 0 {
		return errors.New("must not be negative")
	}
	v.SetFloat(f)
	return nil
}

// mostDuration is practically unlimited, and can be multiplied. A longer one could overflow to a
// negative duration.
const mostDuration = 10 * 365 * 24 * time.Hour

func readDuration(v reflect.Value, s string) error {
	t, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return errors.New("is not a duration such as 250ms, 30s or 10m")
	case t < 0:
		return errors.New("must not be negative")
	case t > mostDuration:
		return errors.New("must be at most ten years, 87600h")
	}
	v.SetInt(int64(t))
	return nil
}

func readMode(v reflect.Value, s string) error {
	m, err := strconv.ParseUint(s, 8, 32)
	if err != nil || m > 0o777 {
		return errors.New("is not an octal file mode such as 0660")
	}
	v.SetUint(m)
	return nil
}

func readBytes(v reflect.Value, s string) error {
	b, err := parseBytes(s)
	v.SetInt(int64(b))
	return err
}

// Bytes is a size; in the file a number with a unit, such as 64MiB or 10MB, or a plain number of
// bytes.
type Bytes int64

var units = []struct {
	name string
	size int64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
	{"", 1},
}

func parseBytes(s string) (Bytes, error) {
	for _, u := range units {
		digits, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimRight(digits, " "), 10, 64)
		switch {
		case errors.Is(err, strconv.ErrRange) || err == nil && n > math.MaxInt64/u.size:
			return 0, errors.New("is too large")
		case err != nil:
			return 0, errors.New("is not a size such as 64MiB, 10MB or 4096")
		case n < 0:
			return 0, errors.New("must not be negative")
		}
		return Bytes(n * u.size), nil
	}
	// every text ends with it, so the loop has returned
	panic("config: the unit list ends with the empty unit")
}

// String returns the size as written in the file, in the largest binary unit without a remainder.
func (b Bytes) String() string {
	for i := 3; i >= 0; i-- {
		if u := units[i]; b != 0 && int64(b)%u.size == 0 {
			return fmt.Sprintf("%d%s", int64(b)/u.size, u.name)
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// errWritten says that variables make a file too long.
var errWritten = fmt.Errorf("with its variables written out the file has more than %d bytes", maxFile)

// expand replaces ${NAME} and ${NAME:-fallback}. $$ is one dollar sign, and any other dollar sign
// stays. As in a shell, the fallback also replaces an empty variable. A value is not expanded
// itself. If the result would have more bytes than most, it returns as much as it has by then, and
// an error.
func expand(s string, env func(string) (string, bool), most int) (string, error) {
	var out strings.Builder
	for out.Len() <= most {
		before, after, found := strings.Cut(s, "$")
		out.WriteString(before)
		switch {
		case !found && out.Len() <= most:
			return out.String(), nil
		case !found:
			continue
		case strings.HasPrefix(after, "$"):
			out.WriteByte('$')
			s = after[1:]
			continue
		case !strings.HasPrefix(after, "{"):
			out.WriteByte('$')
			s = after
			continue
		}
		inner, rest, closed := strings.Cut(after[1:], "}")
		if !closed {
			return "", errors.New("${ lacks its }; write $${ for a literal one")
		}
		value, err := variable(inner, env)
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		s = rest
	}
	return out.String(), errWritten
}

func variable(inner string, env func(string) (string, bool)) (string, error) {
	name, fallback, hasFallback := strings.Cut(inner, ":-")
	if !variableName.MatchString(name) {
		return "", fmt.Errorf("%q is not a variable name", name)
	}
	value, set := env(name)
	switch {
	case hasFallback && value == "":
		return fallback, nil
	case !set && !hasFallback:
		return "", fmt.Errorf("environment variable %s is not set", name)
	case !utf8.ValidString(value):
		return "", fmt.Errorf("environment variable %s is not UTF-8", name)
	}
	return value, nil
}
