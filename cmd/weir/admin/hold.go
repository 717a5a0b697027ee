package admin

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/relay"
)

// Actions on what clients are kept at: the freeze of an origin, and held mass removals.

// durable has on disk what an order has just changed. It returns the answer to the order, which
// says so if it is not there. holds: the order keeps clients at something.
func (a *Admin) durable(ctx context.Context, said string, holds bool) string {
	if a.cfg.Durable != nil {
		if not := a.cfg.Durable(ctx, holds); not != "" {
			return said + "; " + not
		}
	}
	return said
}

// origin returns the table's part for the origin in the path; nil: the request was answered with
// 404.
func (a *Admin) origin(w http.ResponseWriter, name string) *relay.Origin {
	o := a.cfg.Table.Origin(name)
	if o == nil {
		http.Error(w, fmt.Sprintf("there is no origin %q", name), http.StatusNotFound)
	}
	return o
}

// freeze keeps the clients of an origin at what they have, or lets them go.
func (a *Admin) freeze(on bool) http.HandlerFunc {
	message := "the origin is frozen no more"
	if on {
		message = "the origin is frozen: clients stay at what they have"
	}
	return func(w http.ResponseWriter, r *http.Request) {
		o := a.origin(w, r.PathValue("name"))
		if o == nil {
			return
		}
		said, changed, err := a.cfg.Freeze(o.Name(), on)
		a.board.outdated()
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		if changed {
			a.cfg.Log.Warn(message, append(who(r), zap.String("origin", o.Name()))...)
		}
		writeText(w, a.durable(r.Context(), said, on)+"\n")
	}
}

// release applies held removals, of one origin and type or of all.
func (a *Admin) release(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	typeURL := ""
	if text := q.Get("type"); text != "" {
		url, ok := config.TypeURL(text)
		if !ok {
			http.Error(w, fmt.Sprintf("type=%q: write a short name such as cds, or a full type URL", text), http.StatusBadRequest)
			return
		}
		typeURL = url
	}
	only := q.Get("origin")
	if only != "" && a.origin(w, only) == nil {
		return
	}
	released, frozen := 0, ""
	for _, o := range a.cfg.Origins() {
		if only != "" && o.Name != only {
			continue
		}
		part := a.cfg.Table.Origin(o.Name)
		if _, is := part.Frozen(); is {
			frozen += fmt.Sprintf("; %s is frozen, and loses nothing", o.Name)
			continue
		}
		released += part.ReleaseGuard(time.Now(), typeURL)
	}
	a.board.outdated()
	a.cfg.Log.Info("an operator released held removals", append(who(r), zap.Int("resources", released), zap.String("origin", only),
		zap.String("type_url", typeURL))...)
	said := "no removals are held" + frozen
	if released > 0 {
		said = a.durable(r.Context(), fmt.Sprintf("removed %s%s", Plural(released, "held resource"), frozen), false)
	}
	writeText(w, said+"\n")
}
