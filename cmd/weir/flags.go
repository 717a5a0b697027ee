package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-xds/weir/cmd/weir/config"
)

// Flags: values that are one of a few, and what is wrong with a flag, in one line.

// checkedWord is a pflag.Value: a word that is checked.
type checkedWord struct {
	value *string
	check func(text string) error
}

// choiceFlag adds a flag whose value is one of a few words, the first by default.
func choiceFlag(cmd *cobra.Command, value *string, name, short, usage string, of ...string) {
	words := slices.DeleteFunc(slices.Clone(of), func(word string) bool { return word == "" })
	*value = of[0]
	cmd.Flags().VarP(&checkedWord{value, func(text string) error {
		if slices.Contains(of, text) {
			return nil
		}
		return fmt.Errorf("is none of %s%s", strings.Join(words, ", "), didYouMean("", text, words, ""))
	}}, name, short, usage)
	complete(cmd, name, words...)
}

// addTypeFlag adds --type, whose value is a resource type, to a command.
func addTypeFlag(cmd *cobra.Command, usage string) {
	cmd.Flags().Var(&checkedWord{new(string), func(text string) error {
		if _, ok := config.TypeURL(text); !ok {
			return errors.New(notAType(text))
		}
		return nil
	}}, "type", usage)
	complete(cmd, "type", config.ShortNames()...)
}

func (w *checkedWord) String() string { return *w.value }

func (w *checkedWord) Type() string { return "string" }

func (w *checkedWord) Set(text string) error {
	if err := w.check(text); err != nil {
		return err
	}
	*w.value = text
	return nil
}

// typeOf reads a resource type that is an argument.
func typeOf(text string) (typeURL string, _ error) {
	typeURL, ok := config.TypeURL(text)
	if !ok {
		return "", usageError{fmt.Errorf("%q %s", text, notAType(text))}
	}
	return typeURL, nil
}

func notAType(text string) string {
	return "is neither a short name such as cds nor a full type URL" +
		didYouMean("", text, config.ShortNames(), "; the short names are "+strings.Join(config.ShortNames(), ", "))
}

// didYouMean is the end of an error about a word: the one that was meant, after a prefix, or else
// another hint. A word that is the beginning of one alone means that.
func didYouMean(prefix, word string, known []string, otherwise string) string {
	near, ok := config.Nearest(word, known)
	if !ok && word != "" {
		longer := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return !strings.HasPrefix(k, word) })
		if ok = len(longer) == 1; ok {
			near = longer[0]
		}
	}
	if !ok {
		return otherwise
	}
	return "; did you mean " + prefix + near + "?"
}

// flagError says in one line what is wrong with a flag, and what was meant.
func flagError(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return subcommand(cmd, args) // the flag is that of a command that does not exist
	}
	path, known := cmd.CommandPath(), []string(nil)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && (!isConnection(f) || talks(cmd)) {
			known = append(known, f.Name)
		}
	})
	help := "; see " + path + " --help"
	unknown, lacking, invalid := (*pflag.NotExistError)(nil), (*pflag.ValueRequiredError)(nil), (*pflag.InvalidValueError)(nil)
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		// -admin is read as -a -d -m ..., and means --admin.
		word := unknown.GetSpecifiedShortnames()
		text := "-" + word
		if len(word) == 1 {
			return usagef(cmd, "unknown flag %s%s", text, help)
		}
		return usagef(cmd, "unknown flag %s%s", text, didYouMean("--", word, known, help))
	case errors.As(err, &unknown):
		word := unknown.GetSpecifiedName()
		return usagef(cmd, "unknown flag --%s%s", word, didYouMean("--", word, known, help))
	case errors.As(err, &lacking):
		return usagef(cmd, "--%s needs a value%s", lacking.GetFlag().Name, help)
	case errors.As(err, &invalid):
		return usagef(cmd, "--%s %q %s", invalid.GetFlag().Name, invalid.GetValue(), notA(invalid.GetFlag(), errors.Unwrap(invalid)))
	}
	return usagef(cmd, "%v%s", err, help)
}

// usagef makes an error about a command line.
func usagef(cmd *cobra.Command, format string, args ...any) error {
	return usageError{fmt.Errorf(cmd.CommandPath()+": "+format, args...)}
}

// notA says what a value is not.
func notA(f *pflag.Flag, why error) string {
	switch f.Value.Type() {
	case "duration":
		return "is not a duration such as 10s or 5m"
	case "int":
		return "is not a whole number"
	case "bool":
		return "is neither true nor false"
	}
	return why.Error()
}

// exclusive is cobra's annotation of a flag that excludes others.
const exclusive = "cobra_annotation_mutually_exclusive"

// checkFlags refuses flags that exclude each other, and connection flags of commands that do not
// talk to a running weir.
func checkFlags(cmd *cobra.Command, _ []string) (err error) {
	f := cmd.Flags()
	groups := []string{"admin all"}
	f.Visit(func(x *pflag.Flag) {
		if isConnection(x) && !talks(cmd) {
			err = usagef(cmd, "--%s is for commands that talk to a running weir; see %s --help", x.Name, cmd.CommandPath())
		}
		groups = append(groups, x.Annotations[exclusive]...)
	})
	for _, group := range groups {
		names := slices.DeleteFunc(strings.Fields(group), func(name string) bool { return !f.Changed(name) })
		if len(names) > 1 && err == nil {
			err = usagef(cmd, "--%s and --%s exclude each other; give one", names[0], names[1])
		}
	}
	return err
}

// The flags of all commands that talk to a running weir. They may stand before the command as well.

const (
	// connection marks these flags, and the commands that they are for.
	connection = "weir_connection"
	// defaultAdmin is the address that an admin port has by default.
	defaultAdmin = "127.0.0.1:19080"
)

// connectionFlags adds the flags to all commands. checkFlags refuses them where no weir is asked.
func connectionFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.String("admin", defaultAdmin, "`address` of the admin port: host:port, http://, https:// or unix:///path; or set "+adminVariable)
	f.String("token-file", "", "`file` with the token of admin.token_file")
	(&security{}).register(f)
	f.VisitAll(func(x *pflag.Flag) { x.Annotations = map[string][]string{connection: nil} })
}

// isConnection reports whether a flag is one of these.
func isConnection(f *pflag.Flag) bool {
	_, is := f.Annotations[connection]
	return is
}

// talks reports whether a command talks to a running weir.
func talks(cmd *cobra.Command) bool { return cmd.Annotations[connection] != "" }

// register makes the command one that talks to a running weir.
func (o *operator) register(cmd *cobra.Command) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[connection] = "true"
	o.flags = cmd.Flags()
	o.given = func() bool { return o.flags.Changed("admin") }
}

// read takes what the flags say. Without a command the operator is as it was made.
func (o *operator) read() {
	if o.flags == nil {
		return
	}
	text := func(name string) string { return o.flags.Lookup(name).Value.String() }
	o.address, o.tokenFile = text("admin"), text("token-file")
	o.tls.CA, o.tls.Cert, o.tls.Key, o.tls.ServerName = text("ca"), text("cert"), text("key"), text("server-name")
	o.tls.on, _ = strconv.ParseBool(text("tls"))
}

// hideForeign hides the flags from the completion of a command that does not take them. args are
// those of the completion.
func hideForeign(root *cobra.Command, args []string) {
	if len(args) == 0 || !slices.Contains([]string{cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, args[0]) {
		return
	}
	if cmd, _, err := root.Find(args[1 : len(args)-1]); err == nil && !talks(cmd) {
		root.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	}
}
