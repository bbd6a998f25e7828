// A service in Go that lets the agent check its requests' tokens.
package main

import "net/http"
import "time"

var client = http.Client{Timeout: 5 * time.Second}

// Not a good token, or a header that cannot be read or is too long.
var isRefusal = map[int]bool{401: true, 400: true, 431: true}

// signedIn calls next only if the token is good, with the headers of the agent's answer.
func signedIn(next func(http.ResponseWriter, *http.Request, http.Header)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		question, _ := http.NewRequestWithContext(r.Context(), "GET", "http://127.0.0.1:4181/verify", nil)
		question.Header["Authorization"] = r.Header["Authorization"]
		answer, err := client.Do(question)
		if err == nil {
			defer answer.Body.Close()
		}
		if err == nil && answer.StatusCode == http.StatusOK {
			next(w, r, answer.Header)
		} else if err == nil && isRefusal[answer.StatusCode] {
			w.Header()["Www-Authenticate"] = answer.Header["Www-Authenticate"]
			w.WriteHeader(answer.StatusCode)
		} else { // Nothing is known about the token. A 401 would sign the user out.
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
}

func main() {
	http.HandleFunc("/orders", signedIn(func(w http.ResponseWriter, r *http.Request, auth http.Header) {
		w.Write([]byte("user " + auth.Get("X-Auth-User") + ", roles " + auth.Get("X-Auth-Roles") + "\n"))
	}))
	panic(http.ListenAndServe(":8080", nil))
}
