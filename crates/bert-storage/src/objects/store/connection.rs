//! HTTP connections that make every failure of an idempotent request retryable.

use std::error::Error;
use std::io;

use futures_util::future::BoxFuture;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};

/// Connector for stores whose idempotent requests are retried after every failure of the connection.
///
/// The crate `object_store` retries a request according to the kind of its error. It does not retry
/// - errors of unknown kind, such as "connection was not ready", which a closed connection can cause;
/// - a response whose body is cut off, unless the body is an object;
/// - a removal without a response, because S3 removes objects with a POST request.
#[derive(Debug, Default)]
pub struct RetryingConnector(ReqwestConnector);

impl HttpConnector for RetryingConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(RetryingClient(self.0.connect(options)?)))
    }
}

#[derive(Debug)]
struct RetryingClient(HttpClient);

impl RetryingClient {
    /// Returns the response to a request. Reads the body unless it is part of an object.
    async fn respond(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let reads_object = request.headers().contains_key("range");
        let response = self.0.execute(request).await?;
        if reads_object {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let body = body.bytes().await.map_err(|error| with_kind(HttpErrorKind::Interrupted, &error))?;
        Ok(HttpResponse::from_parts(parts, body.into()))
    }
}

impl HttpService for RetryingClient {
    fn call<'client, 'call>(
        &'client self,
        request: HttpRequest,
    ) -> BoxFuture<'call, Result<HttpResponse, HttpError>>
    where
        'client: 'call,
        Self: 'call,
    {
        let is_removal = is_removal(&request);
        Box::pin(async move {
            self.respond(request).await.map_err(|error| match error.kind() {
                // Errors of this kind are retried even if the crate does not know that the request is idempotent.
                _ if is_removal => with_kind(HttpErrorKind::Request, &error),
                HttpErrorKind::Unknown => with_kind(HttpErrorKind::Interrupted, &error),
                _ => error,
            })
        })
    }
}

/// Returns whether a request removes objects, which can be repeated.
fn is_removal(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    // S3 and Azure remove several objects with one POST request.
    request.method() == "DELETE" || query == "delete" || query.contains("comp=batch")
}

/// Returns an error of a different kind with the same cause.
fn with_kind(kind: HttpErrorKind, error: &HttpError) -> HttpError {
    let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    HttpError::new(kind, io::Error::other(cause))
}
