package csds

import (
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/types/known/timestamppb"
)

type item = statusv3.ClientConfig_GenericXdsConfig

var configStatus = map[relay.ItemStatus]statusv3.ConfigStatus{
	relay.ItemSynced: statusv3.ConfigStatus_SYNCED, relay.ItemNotSent: statusv3.ConfigStatus_NOT_SENT,
	relay.ItemStale: statusv3.ConfigStatus_STALE, relay.ItemRefused: statusv3.ConfigStatus_ERROR,
}

var clientStatus = map[inspect.AskedStatus]adminv3.ClientResourceStatus{
	inspect.AskedRequested: adminv3.ClientResourceStatus_REQUESTED, inspect.AskedHeld: adminv3.ClientResourceStatus_ACKED,
	inspect.AskedAbsent: adminv3.ClientResourceStatus_DOES_NOT_EXIST, inspect.AskedTimeout: adminv3.ClientResourceStatus_TIMEOUT,
	inspect.AskedError: adminv3.ClientResourceStatus_RECEIVED_ERROR, inspect.AskedRefused: adminv3.ClientResourceStatus_NACKED,
}

// sent returns an item of the server view (CSDS-3).
func (a *answer) sent(it *downstream.Item) *item {
	x := &item{
		TypeUrl: it.TypeURL, Name: it.Name, VersionInfo: it.Version, LastUpdated: at(it.Updated),
		ConfigStatus: configStatus[it.Status], XdsConfig: a.body(it.Body),
	}
	if it.Status == relay.ItemRefused {
		x.ErrorState = &adminv3.UpdateFailureState{
			LastUpdateAttempt: at(it.Nack.At), Details: it.Nack.Message, VersionInfo: it.Version,
		}
	}
	return x
}

// asked returns an item of the client view (CSDS-4).
func (a *answer) asked(it *inspect.AskedItem) *item {
	x := &item{
		TypeUrl: it.TypeURL, Name: it.Name, VersionInfo: it.Version, LastUpdated: at(it.Updated),
		ClientStatus: clientStatus[it.Status], XdsConfig: a.body(it.Body),
	}
	if it.Status == inspect.AskedRefused || it.Status == inspect.AskedError || it.Why != "" {
		x.ErrorState = &adminv3.UpdateFailureState{LastUpdateAttempt: at(it.WrongAt), Details: it.Why}
	}
	return x
}

func at(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
