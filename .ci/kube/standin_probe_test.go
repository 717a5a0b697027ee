package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probing is the probes of a process.
type probing struct {
	sync.WaitGroup
	failed chan struct{} // receives once if the process is to be restarted
}

// probe begins to ask the container's process: whether it has started, then whether it lives and is
// ready.
func (c *container) probe(ctx context.Context) *probing {
	p := &probing{failed: make(chan struct{}, 1)}
	p.Go(func() {
		if probe := c.spec.StartupProbe; probe != nil && !c.repeat(ctx, probe, "startup", true, nil) {
			if ctx.Err() == nil {
				nudge(p.failed)
			}
			return
		}
		c.change(func() { c.started = true; c.ready = c.spec.ReadinessProbe == nil })
		if probe := c.spec.LivenessProbe; probe != nil {
			p.Go(func() {
				if !c.repeat(ctx, probe, "liveness", false, nil) && ctx.Err() == nil {
					nudge(p.failed)
				}
			})
		}
		if probe := c.spec.ReadinessProbe; probe != nil {
			p.Go(func() {
				c.repeat(ctx, probe, "readiness", false, func(ready bool) { c.change(func() { c.ready = ready }) })
			})
		}
	})
	return p
}

// repeat asks until ctx ends or the probe has failed for good, which is false, or until it has
// succeeded if that is all that is wanted (once). If told is not nil it is told what the answers
// come to, and a failure is not for good.
func (c *container) repeat(ctx context.Context, probe *corev1.Probe, kind string, once bool, told func(good bool)) bool {
	failures, successes := int32(0), int32(0)
	wait := time.Duration(probe.InitialDelaySeconds) * time.Second
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
		wait = time.Duration(probe.PeriodSeconds) * time.Second
		err := c.ask(ctx, probe)
		switch {
		case ctx.Err() != nil:
			return false
		case err == nil:
			failures = 0
			successes++
			if successes < probe.SuccessThreshold {
				continue
			}
			if told != nil {
				told(true)
			}
			if once {
				return true
			}
		default:
			successes = 0
			failures++
			c.pod.note("%s: its %s probe: %v", c.spec.Name, kind, err)
			if failures < probe.FailureThreshold {
				continue
			}
			if told == nil {
				return false
			}
			told(false)
		}
	}
}

// ask is one question.
func (c *container) ask(ctx context.Context, probe *corev1.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(probe.TimeoutSeconds)*time.Second)
	defer cancel()
	switch {
	case probe.HTTPGet != nil:
		port, err := c.port(probe.HTTPGet.Port)
		if err != nil {
			return err
		}
		url := "http://" + net.JoinHostPort(c.pod.address.String(), port) + probe.HTTPGet.Path
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		response, err := prober.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode < 200 || response.StatusCode >= 400 {
			return fmt.Errorf("HTTP probe failed with statuscode: %d", response.StatusCode)
		}
		return nil
	case probe.TCPSocket != nil:
		port, err := c.port(probe.TCPSocket.Port)
		if err != nil {
			return err
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(c.pod.address.String(), port))
		if err != nil {
			return err
		}
		return conn.Close()
	case probe.Exec != nil:
		_, err := c.exec(ctx, probe.Exec.Command)
		return err
	}
	return errors.New("the stand-in does not know this probe")
}

// prober has a connection for each question, as a kubelet has.
var prober = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// port is a number, or that of a port of the container's by name.
func (c *container) port(p intstr.IntOrString) (string, error) {
	if p.Type == intstr.Int {
		return strconv.Itoa(p.IntValue()), nil
	}
	for _, port := range c.spec.Ports {
		if port.Name == p.StrVal {
			return strconv.Itoa(int(port.ContainerPort)), nil
		}
	}
	return "", fmt.Errorf("the container has no port %s", p.StrVal)
}
