package certificates

import (
	"crypto/x509"
	"encoding/pem"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
)

// Expiry shows when certificates end. The zero value shows nothing. It is safe for concurrent use.
type Expiry struct{ ends *prometheus.GaugeVec }

// NewExpiry makes an Expiry with its metric. A process has one.
func NewExpiry(r prometheus.Registerer) Expiry {
	ends := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "virtflow_certificate_expiry_timestamp_seconds",
		Help: "When the certificate in a Secret expires, as this process last read it, by the Secret's name.",
	}, []string{"secret"})
	r.MustRegister(ends)
	return Expiry{ends}
}

// observe takes the end of the certificate in a Secret as it was read, so that one that cannot be renewed shows too.
func (e Expiry) observe(secret *corev1.Secret) {
	if e.ends == nil {
		return
	}
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		return
	}
	if c, err := x509.ParseCertificate(block.Bytes); err == nil {
		e.ends.WithLabelValues(secret.Name).Set(float64(c.NotAfter.Unix()))
	}
}
