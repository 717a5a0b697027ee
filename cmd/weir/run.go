package main

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/visible"
)

func runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [FILE]",
		Short: "Serve",
		Long: `Serve what FILE, or weir.yaml, says. Paths in it that do not begin with a slash
start at the directory that it is in.

The configuration that was accepted last is kept in cache.snapshot.path. With
--last-good, weir starts with it if the file is refused, and says so; with
--last-good=DIR it is kept in that directory instead.`,
		Args: arguments,
	}
	configFlag(cmd)
	s := &start{}
	lastGoodFlag(cmd, s)
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		hangup := make(chan os.Signal, 1)
		signal.Notify(hangup, syscall.SIGHUP) // from here on SIGHUP does not end the process
		defer signal.Stop(hangup)
		path, cfg, err := loadConfig(cmd, args)
		if usage := (usageError{}); errors.As(err, &usage) {
			return err
		}
		s.path, s.stderr, s.hangup = path, cmd.ErrOrStderr(), hangup
		p, err := s.process(cmd.Context(), cfg, err)
		if err != nil {
			return err
		}
		return p.run(cmd.Context())
	})
	return cmd
}

// newLogger writes to w, one line per entry, whatever its level: packages have levels of their own.
// What peers have hidden in names is shown.
func newLogger(cfg config.Log, w io.Writer) *zap.Logger {
	fields := zap.NewProductionEncoderConfig()
	fields.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	fields.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(fields)
	if cfg.Format == "console" {
		encoder = zapcore.NewConsoleEncoder(fields)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.AddSync(visible.NewWriter(w)), zap.DebugLevel))
}
