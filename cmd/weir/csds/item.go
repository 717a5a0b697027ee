package csds

import (
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/types/known/timestamppb"
)

type item = statusv3.ClientConfig_GenericXdsConfig

var configStatus = map[relay.ItemStatus]statusv3.ConfigStatus{
	relay.ItemSynced: statusv3.ConfigStatus_SYNCED, relay.ItemNotSent: statusv3.ConfigStatus_NOT_SENT,
	relay.ItemStale: statusv3.ConfigStatus_STALE, relay.ItemRefused: statusv3.ConfigStatus_ERROR,
}

var clientStatus = map[relay.AskedStatus]adminv3.ClientResourceStatus{
	relay.AskedRequested: adminv3.ClientResourceStatus_REQUESTED, relay.AskedHeld: adminv3.ClientResourceStatus_ACKED,
	relay.AskedAbsent: adminv3.ClientResourceStatus_DOES_NOT_EXIST, relay.AskedTimeout: adminv3.ClientResourceStatus_TIMEOUT,
	relay.AskedError: adminv3.ClientResourceStatus_RECEIVED_ERROR, relay.AskedRefused: adminv3.ClientResourceStatus_NACKED,
}

// sent is an item of the server view (CSDS-3).
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

// asked is an item of the client view (CSDS-4).
func (a *answer) asked(it *relay.AskedItem) *item {
	x := &item{
		TypeUrl: it.TypeURL, Name: it.Name, VersionInfo: it.Version, LastUpdated: at(it.Updated),
		ClientStatus: clientStatus[it.Status], XdsConfig: a.body(it.Body),
	}
	if it.Status == relay.AskedRefused || it.Status == relay.AskedError || it.Why != "" {
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
