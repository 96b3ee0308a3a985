package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"greyrelease.example.com/hooks/composite"
	"greyrelease.example.com/hooks/greyrelease"
)

// Product is the hook of GreyRelease called as a function, with the statuses
// that the service gives to its errors, and without a [Prometheus].
func Product(body []byte, now time.Time) (Reply, error) {
	request, err := greyrelease.DecodeSync(body)
	if err != nil {
		return refusal(err), nil
	}
	response, err := greyrelease.Sync(request, greyrelease.Measurements{}, now.UTC().Truncate(time.Second))
	if err != nil {
		return refusal(err), nil
	}
	text, err := response.Encode()
	if err != nil {
		return refusal(err), nil
	}
	return Reply{Status: http.StatusOK, Body: text}, nil
}

// Customize is the customize hook of GreyRelease called as a function.
func Customize(body []byte, _ time.Time) (Reply, error) {
	request, err := greyrelease.DecodeCustomize(body)
	if err != nil {
		return refusal(err), nil
	}
	response, err := greyrelease.Customize(request)
	if err != nil {
		return refusal(err), nil
	}
	text, err := response.Encode()
	if err != nil {
		return refusal(err), nil
	}
	return Reply{Status: http.StatusOK, Body: text}, nil
}

func refusal(err error) Reply {
	var bad *composite.BadRequestError
	var retry *composite.RetryError
	switch {
	case errors.As(err, &bad):
		return Reply{Status: http.StatusBadRequest, Body: []byte(err.Error())}
	case errors.As(err, &retry):
		return Reply{Status: http.StatusTooManyRequests, RetryAfter: retry.After, Body: []byte(err.Error())}
	}
	return Reply{Status: http.StatusInternalServerError, Body: []byte(err.Error())}
}

// HTTP is a hook at a URL. The service there has its own clock, so the cluster's
// must be paced in real time.
func HTTP(client *http.Client, url string) Hook {
	return func(body []byte, _ time.Time) (Reply, error) {
		response, err := client.Post(url, "application/json", bytes.NewReader(body))
		if err != nil {
			return Reply{}, err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			return Reply{}, fmt.Errorf("cannot read answer: %w", err)
		}
		reply := Reply{Status: response.StatusCode, Body: text}
		if reply.Status == http.StatusTooManyRequests {
			seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
			if err != nil {
				return Reply{}, fmt.Errorf("cannot read Retry-After: %w", err)
			}
			reply.RetryAfter = time.Duration(seconds) * time.Second
		}
		return reply, nil
	}
}
