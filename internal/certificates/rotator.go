package certificates

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// checkInterval is the interval of checks of the certificates' ages; changes of the Secret arrive at once.
const checkInterval = time.Hour

// Options names the certificate, and the objects that get its CA.
type Options struct {
	// Secret has the certificate. It must exist, empty at first: RBAC cannot permit the creation of one by name.
	Secret types.NamespacedName
	// Service is the name of the Service in front of this process, in the Secret's namespace.
	Service string
	// MutatingWebhooks and ValidatingWebhooks are the names of the configurations that get the CA; empty if there are
	// none.
	MutatingWebhooks   string
	ValidatingWebhooks string
	// APIServices are the names of the APIServices that get it too.
	APIServices []string
	// Bundle is the ConfigMap that gets the CA, under BundleKey, for clients without Kubernetes credentials; without a
	// name there is none. It must exist, empty at first.
	Bundle types.NamespacedName
	// Keys are names of random keys of KeySize bytes that are kept in the Secret beside the certificate, for all
	// replicas and across restarts. Each is replaced after keyLife, and kept for as long again.
	Keys []string
	// Expiry shows when the certificate expires.
	Expiry Expiry
}

// Rotator renews the certificate. It is safe for concurrent use, in one process and in several.
type Rotator struct {
	Options
	client  client.Client
	log     zerolog.Logger
	now     func() time.Time
	current atomic.Pointer[tls.Certificate]
	trusted atomic.Bool
	keys    atomic.Pointer[map[string]keys]
}

// NewRotator returns a Rotator that reads and writes through a client.
func NewRotator(c client.Client, o Options, log zerolog.Logger) *Rotator {
	return &Rotator{Options: o, client: c, log: log, now: time.Now}
}

// SetUp has a manager call the Rotator whenever the Secret or a webhook configuration changes. Every replica does it.
func (k *Rotator) SetUp(mgr ctrl.Manager) error {
	always := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: k.Secret}}
	})
	everyReplica := false
	b := ctrl.NewControllerManagedBy(mgr).Named("certificates").For(&corev1.Secret{})
	if k.MutatingWebhooks != "" {
		b = b.Watches(&admissionregistrationv1.MutatingWebhookConfiguration{}, always)
	}
	if k.ValidatingWebhooks != "" {
		b = b.Watches(&admissionregistrationv1.ValidatingWebhookConfiguration{}, always)
	}
	if len(k.APIServices) > 0 {
		b = b.Watches(NewAPIService(""), always,
			builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
				return slices.Contains(k.APIServices, o.GetName())
			})))
	}
	if k.Bundle.Name != "" {
		b = b.Watches(&corev1.ConfigMap{}, always)
	}
	if err := b.WithOptions(controller.Options{NeedLeaderElection: &everyReplica}).Complete(k); err != nil {
		return fmt.Errorf("setting up the certificates: %w", err)
	}
	return nil
}

// Certificate is a function for tls.Config.GetCertificate.
func (k *Rotator) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c := k.current.Load()
	if c == nil {
		return nil, errors.New("there is no certificate yet")
	}
	return c, nil
}

// Ready is a health check: it fails unless there is a certificate that the API server trusts.
func (k *Rotator) Ready(context.Context) error {
	if k.current.Load() == nil {
		return fmt.Errorf("no certificate yet in Secret %s", k.Secret)
	}
	if !k.trusted.Load() {
		return errors.New("the CA was not yet written to all webhook configurations")
	}
	return nil
}

// Reconcile ensures that the Secret has a valid certificate, that this process uses it, and that its CA is trusted.
func (k *Rotator) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	secret := &corev1.Secret{}
	if err := k.client.Get(ctx, k.Secret, secret); err != nil {
		return reconcile.Result{},
			fmt.Errorf("reading Secret %s (part of virtflow's manifests, empty at first): %w", k.Secret, err)
	}
	k.Expiry.observe(secret)
	secret = secret.DeepCopy()
	renewed, err := k.issuer().renew(secret, k.now())
	if err != nil {
		return reconcile.Result{}, err
	}
	if added, err := k.renewKeys(secret); err != nil {
		return reconcile.Result{}, err
	} else if added && renewed == "" {
		renewed = "keys"
	}
	if renewed != "" {
		if err := k.client.Update(ctx, secret); err != nil {
			if apierrors.IsConflict(err) {
				return reconcile.Result{}, nil // another replica has written first; the watch will deliver its write
			}
			return reconcile.Result{}, fmt.Errorf("writing Secret %s: %w", k.Secret, err)
		}
		k.log.Info().Str("namespace", k.Secret.Namespace).Str("name", k.Secret.Name).Str("renewed", renewed).
			Msg("renewed certificate")
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("loading the certificate in Secret %s: %w", k.Secret, err)
	}
	// First trust, then use: a new CA must be trusted before a certificate of it is presented. An object that is
	// missing trusts no CA, and while no certificate is in use yet, the existing ones need not wait for it.
	webhooks, others := k.trust(ctx, bundleOf(secret))
	err = errors.Join(webhooks, others)
	if err != nil && k.current.Load() != nil && !allMissing(webhooks, others) {
		return reconcile.Result{}, err
	}
	k.takeKeys(secret)
	k.current.Store(&pair)
	if hooked := k.MutatingWebhooks != "" || k.ValidatingWebhooks != ""; webhooks == nil && (hooked || others == nil) {
		k.trusted.Store(true)
	}
	return reconcile.Result{RequeueAfter: checkInterval}, err
}

// trust writes the CA to every object that must have it and does not, even if others fail. It returns the errors of
// objects other than webhooks separately.
func (k *Rotator) trust(ctx context.Context, bundle []byte) (webhooks, others error) {
	var atWebhooks, atOthers []error
	if k.MutatingWebhooks != "" {
		atWebhooks = append(atWebhooks, k.trustMutating(ctx, bundle))
	}
	if k.ValidatingWebhooks != "" {
		atWebhooks = append(atWebhooks, k.trustValidating(ctx, bundle))
	}
	for _, name := range k.APIServices {
		atOthers = append(atOthers, k.trustAt(ctx, name, bundle))
	}
	if k.Bundle.Name != "" {
		atOthers = append(atOthers, k.publish(ctx, bundle))
	}
	return errors.Join(atWebhooks...), errors.Join(atOthers...)
}

// allMissing reports whether the only errors are that objects are missing.
func allMissing(joined ...error) bool {
	for _, j := range joined {
		list, ok := j.(interface{ Unwrap() []error })
		if !ok {
			continue
		}
		for _, err := range list.Unwrap() {
			if !apierrors.IsNotFound(err) {
				return false
			}
		}
	}
	return true
}

func (k *Rotator) trustMutating(ctx context.Context, bundle []byte) error {
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := k.client.Get(ctx, types.NamespacedName{Name: k.MutatingWebhooks}, mutating); err != nil {
		return fmt.Errorf("reading MutatingWebhookConfiguration %s: %w", k.MutatingWebhooks, err)
	}
	changed, same := mutating.DeepCopy(), true
	for i := range changed.Webhooks {
		w := &changed.Webhooks[i]
		same = k.trustFrom(&w.ClientConfig, bundle) && same
	}
	return k.patch(ctx, changed, mutating, same)
}

func (k *Rotator) trustValidating(ctx context.Context, bundle []byte) error {
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := k.client.Get(ctx, types.NamespacedName{Name: k.ValidatingWebhooks}, validating); err != nil {
		return fmt.Errorf("reading ValidatingWebhookConfiguration %s: %w", k.ValidatingWebhooks, err)
	}
	changed, same := validating.DeepCopy(), true
	for i := range changed.Webhooks {
		w := &changed.Webhooks[i]
		same = k.trustFrom(&w.ClientConfig, bundle) && same
	}
	return k.patch(ctx, changed, validating, same)
}

func (k *Rotator) patch(ctx context.Context, changed, from client.Object, same bool) error {
	if same {
		return nil
	}
	if err := k.client.Patch(ctx, changed, client.StrategicMergeFrom(from)); err != nil {
		return fmt.Errorf("writing the CA into %s: %w", from.GetName(), err)
	}
	k.log.Info().Str("name", from.GetName()).Msg("wrote current CA into webhook configuration")
	return nil
}

// trustFrom writes the CA into one webhook's configuration, and reports whether it was there already. A webhook that
// the API server reaches by another Service has another CA.
func (k *Rotator) trustFrom(c *admissionregistrationv1.WebhookClientConfig, bundle []byte) (same bool) {
	if s := c.Service; s != nil && (s.Name != k.Service || s.Namespace != k.Secret.Namespace) {
		return true
	}
	same = bytes.Equal(c.CABundle, bundle)
	c.CABundle = bundle
	return same
}
