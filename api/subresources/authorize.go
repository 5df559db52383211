package subresources

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reviews asks the API server, by SubjectAccessReview, whether a user may do something.
type Reviews struct{ Client client.Client }

// Allowed reports whether the user may, and returns the reason if not.
func (r Reviews) Allowed(
	ctx context.Context, u User, attributes authorizationv1.ResourceAttributes,
) (bool, string, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range u.Extra {
		extra[k] = v
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: u.Name, UID: u.UID, Groups: u.Groups, Extra: extra, ResourceAttributes: &attributes,
	}}
	if err := r.Client.Create(ctx, review); err != nil {
		return false, "", fmt.Errorf("reviewing whether %s may %s %s/%s: %w", u.Name, attributes.Verb,
			attributes.Resource, attributes.Subresource, err)
	}
	if review.Status.Allowed && !review.Status.Denied {
		return true, "", nil
	}
	if why := review.Status.Reason; why != "" {
		return false, why, nil
	}
	return false, fmt.Sprintf("User %q cannot %s resource %q in API group %q in the namespace %q",
		u.Name, attributes.Verb, attributes.Resource+"/"+
			attributes.Subresource, attributes.Group, attributes.Namespace), nil
}
