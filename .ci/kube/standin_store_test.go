package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// object is a pointer to a kind of the API.
type object interface {
	runtime.Object
	comparable
	GetNamespace() string
}

// store is what the API server has of one kind, kept up to date by an informer.
type store[T object] struct {
	objects    cache.Store
	controller cache.Controller
}

// watch begins to follow a kind. changed is called for every object that is new, changed or gone;
// it must not wait.
func watch[T object](ctx context.Context, client rest.Interface, resource string, kind T, changed func(object T, gone bool)) *store[T] {
	call := func(object any, gone bool) {
		if lost, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = lost.Obj
		}
		if object, ok := object.(T); ok && changed != nil {
			changed(object, gone)
		}
	}
	objects, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(client, resource, "", fields.Everything()),
		ObjectType:    kind,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { call(object, false) },
			UpdateFunc: func(_, object any) { call(object, false) },
			DeleteFunc: func(object any) { call(object, true) },
		},
	})
	go controller.RunWithContext(ctx)
	return &store[T]{objects: objects, controller: controller}
}

// synced waits until all objects are there that were when the watch began.
func (s *store[T]) synced(ctx context.Context) error {
	for !s.controller.HasSynced() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// get is nil if there is none. Objects are shared: nobody may change them.
func (s *store[T]) get(namespace, name string) T {
	key := name
	if namespace != "" {
		key = namespace + "/" + name
	}
	found, _, _ := s.objects.GetByKey(key) // the store of an informer has no errors
	o, _ := found.(T)
	return o
}

// list has the objects of a namespace, or all.
func (s *store[T]) list(namespace string) (all []T) {
	for _, o := range s.objects.List() {
		if o, ok := o.(T); ok && (namespace == "" || o.GetNamespace() == namespace) {
			all = append(all, o)
		}
	}
	return all
}
