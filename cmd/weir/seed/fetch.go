package seed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/cmd/weir/snapshot"
)

// window is how many bytes have to come in a quarter of the time.
const window = 1 << 20

var (
	errSlow  = errors.New("it is too slow")
	errShort = errors.New("it ended before it was whole")
)

// fetch gets the state of a sibling. patient: nobody else can be asked, so it may be slow.
func (s *Search) fetch(ctx context.Context, a Answer, patient bool) (_ *snapshot.Content, err error) {
	defer func() { s.cfg.Metrics.SeedTransfer(taken, resultOf(err)) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if deadline, ok := ctx.Deadline(); ok && !patient {
		stall := time.Until(deadline) / 4
		slow := time.AfterFunc(stall, func() { cancel(errSlow) })
		defer slow.Stop()
		return s.receive(ctx, a, func() { slow.Reset(stall) })
	}
	return s.receive(ctx, a, func() {})
}

// receive reads and checks a state. moved is called for each window of bytes.
func (s *Search) receive(ctx context.Context, a Answer, moved func()) (*snapshot.Content, error) {
	why := func(err error) error {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	resp, err := s.get(ctx, a.Address, statePath)
	if err != nil {
		return nil, why(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or is not wanted
	var data bytes.Buffer
	body := io.LimitReader(resp.Body, s.cfg.MaxBytes+1)
	for {
		n, err := io.CopyN(&data, body, window)
		if int64(data.Len()) > s.cfg.MaxBytes {
			return nil, fmt.Errorf("it has more than %d bytes", s.cfg.MaxBytes)
		}
		if s.cfg.Room != nil && !s.cfg.Room(int64(data.Len())) { // as much again when it grows
			return nil, fmt.Errorf("memory is short: it has more than %d bytes", data.Len())
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, why(err)
		}
		if n > 0 {
			moved()
		}
	}
	sum := sha256.Sum256(data.Bytes())
	switch got := resp.Trailer.Get(checksum); got {
	case hex.EncodeToString(sum[:]):
	case "":
		return nil, errShort
	default:
		return nil, errors.New("its checksum differs: it was changed on its way")
	}
	c, err := snapshot.DecodeWithin(a.Address, data.Bytes(), s.cfg.Keys, s.cfg.Room)
	if err != nil {
		return nil, err
	}
	if len(c.Report.Damages) > 0 {
		d := c.Report.Damages[0]
		return nil, fmt.Errorf("it is damaged: at offset %d, %s", d.Offset, d.What)
	}
	return c, s.fits(c)
}

// fits returns why a content is not for this process.
func (s *Search) fits(c *snapshot.Content) error {
	if c.Header.Deployment != s.cfg.Deployment {
		return &foreign{c.Header.Deployment, s.cfg.Deployment}
	}
	return notAhead(c.Latest(), time.Now())
}

// filePause is how often a file is looked at that is not there yet.
const filePause = 100 * time.Millisecond

// file yields the file, as soon as it is there and whole. When the time is over, what is there of
// it is taken, as it would be of a snapshot.
func (s *Search) file(ctx context.Context, yield func(Found) bool) {
	began := time.Now()
	for {
		c, err := snapshot.ReadWithin(s.cfg.File, s.cfg.Keys, s.cfg.Room)
		if err == nil {
			err = s.fits(c)
		}
		whole := err == nil && len(c.Report.Damages) == 0
		if whole || s.hopeless(err) || !pause(ctx, filePause) {
			s.fileFound(c, err, time.Since(began), yield)
			return
		}
	}
}

func (s *Search) fileFound(c *snapshot.Content, err error, took time.Duration, yield func(Found) bool) {
	where := zap.String("file", s.cfg.File)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, snapshot.ErrEmpty):
		s.cfg.Log.Info("cache.seed.file has no resources", where, zap.Duration("took", took), zap.Error(err))
		return
	case err != nil:
		s.cfg.Log.Warn("could not use cache.seed.file", where, zap.Error(err))
		return
	}
	for _, d := range c.Report.Damages {
		s.cfg.Log.Error("cache.seed.file is damaged", where, zap.Int64("offset", d.Offset), zap.Int64("bytes", d.Length), zap.String("what", d.What))
	}
	yield(Found{c, "file " + s.cfg.File})
}

// hopeless reports whether waiting does not mend what is wrong with the file.
func (s *Search) hopeless(err error) bool {
	return errors.As(err, new(*foreign)) || errors.As(err, new(*ahead)) || errors.As(err, new(*snapshot.KeyError)) ||
		errors.As(err, new(*snapshot.VersionError)) || errors.Is(err, snapshot.ErrEmpty)
}
