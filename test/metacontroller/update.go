package main

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
)

// update changes the live version of an object, four times at most if others write
// it as well. An object of another uid under the same name is none. change says
// whether there is anything to write.
func update(ctx context.Context, client dynamic.ResourceInterface, k kind, obj *unstructured.Unstructured,
	change func(*unstructured.Unstructured) bool, write func(*unstructured.Unstructured) (*unstructured.Unstructured, error),
) (*unstructured.Unstructured, error) {
	var result *unstructured.Unstructured
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live, err := client.Get(ctx, obj.GetName(), getOptions)
		if err != nil {
			return err
		}
		if live.GetUID() != obj.GetUID() {
			return apierrors.NewNotFound(k.resource.GroupResource(), obj.GetName())
		}
		if !change(live) {
			result = live
			return nil
		}
		result, err = write(live)
		return err
	})
	return result, err
}
