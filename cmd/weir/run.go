package main

import (
	"io"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/weir-xds/weir/cmd/weir/config"
)

func configFlag(cmd *cobra.Command) *string {
	return cmd.Flags().StringP("config", "c", "weir.yaml", "the configuration `file`")
}

func runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve",
		Args:  cobra.NoArgs,
	}
	path := configFlag(cmd)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		cfg, err := config.Load(*path)
		if err != nil {
			return err
		}
		log, err := newLogger(cfg.Log, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		for _, w := range cfg.Warnings() {
			log.Warn("the configuration may not mean what it says", zap.String("file", w.File), zap.Int("line", w.Line),
				zap.Int("column", w.Column), zap.String("key", w.Path), zap.String("warning", w.Msg))
		}
		return serve(cmd.Context(), cfg, log)
	})
	return cmd
}

// newLogger writes to w, one line per entry.
func newLogger(cfg config.Log, w io.Writer) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(cfg.Level)
	if err != nil {
		return nil, err
	}
	fields := zap.NewProductionEncoderConfig()
	fields.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	fields.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(fields)
	if cfg.Format == "console" {
		encoder = zapcore.NewConsoleEncoder(fields)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level)), nil
}
