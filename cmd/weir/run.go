package main

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/weir-xds/weir/cmd/weir/config"
)

func runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [FILE]",
		Short: "Serve",
		Long: `Serve what FILE, or weir.yaml, says. Paths in it that do not begin with a slash
start at the directory that it is in.`,
		Args: arguments,
	}
	configFlag(cmd)
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		hangup := make(chan os.Signal, 1)
		signal.Notify(hangup, syscall.SIGHUP) // from here on it does not end the process
		defer signal.Stop(hangup)
		path, cfg, err := loadConfig(cmd, args)
		if err != nil {
			return err
		}
		log, level, err := newLogger(cfg.Log, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		for _, w := range cfg.Warnings() {
			warn(log, w)
		}
		return serve(cmd.Context(), path, cfg, log, level, hangup)
	})
	return cmd
}

// newLogger writes to w, one line per entry, from a level on that may change.
func newLogger(cfg config.Log, w io.Writer) (*zap.Logger, *zap.AtomicLevel, error) {
	level, err := zap.ParseAtomicLevel(cfg.Level)
	if err != nil {
		return nil, nil, err
	}
	fields := zap.NewProductionEncoderConfig()
	fields.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	fields.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(fields)
	if cfg.Format == "console" {
		encoder = zapcore.NewConsoleEncoder(fields)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level)), &level, nil
}
