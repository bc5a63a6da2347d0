//! `hankweave mcp`: offers tasks as tools to an agent, over the Model Context Protocol (MCP) on standard input and output (CLI-55, CLI-56). `schema`
//! describes the tools, `tools` does their work.

mod attached;
mod execute;
mod refusal;
mod schema;
mod tools;

use std::process::ExitCode;

use hankweave_runtime::Shutdown;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorCode, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::json;

use self::attached::Attachments;
use self::refusal::{TOOL_NOT_FOUND, ToolError};
use self::schema::{TOOLS, ToolDescription};
use self::tools::Tools;
use crate::args::{Global, McpArgs};
use crate::logging;
use crate::registry::{Registry, with_registry};
use crate::signals::{self, HangUp, stopped};
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::screen;

pub(crate) fn mcp(global: &Global, args: &McpArgs) -> Result<ExitCode, CliError> {
    logging::install(global);
    with_registry(&args.place, async |registry: &Registry| serve(registry).await)
}

/// Serves one client until it disconnects or a signal comes; then ends the work of all agents that are attached here.
async fn serve(registry: &Registry) -> Result<ExitCode, CliError> {
    let attachments = Attachments::new(registry.clone());
    let server = McpServer(Tools::new(registry.clone(), attachments.clone()));
    let shutdown = Shutdown::new();
    let served = tokio::select! {
        never = signals::watch(shutdown.clone(), HangUp::Stops) => match never {},
        () = shutdown.requested() => Ok(()),
        served = serve_stdio(server) => served,
    };
    attachments.close().await;
    served?;
    Ok(stopped(&shutdown))
}

async fn serve_stdio(server: McpServer) -> Result<(), CliError> {
    let refused = |error: ServerInitializeError| {
        CliError::new(CliErrorKind::Input, format!("the client does not speak MCP: {error}"))
            .hint("an agent starts this program itself, as in {\"mcpServers\": {\"tasks\": {\"command\": \"hankweave\", \"args\": [\"mcp\"]}}}")
    };
    let running = server.serve(screen::streams()).await;
    let running = running.map_err(refused)?;
    let ended = running.waiting().await;
    ended.map_err(|error| CliError::new(CliErrorKind::Bug, format!("the MCP server has failed: {error}")))?;
    Ok(())
}

struct McpServer(Tools);

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("hankweave", env!("CARGO_PKG_VERSION")))
            .with_instructions(
                "Tasks that workers share. A task runs a hank when a worker claims it, or is worked on by an agent that attaches to it here.",
            )
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(
            TOOLS.iter().map(announcement).collect(),
        ))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = TOOLS.iter().find(|tool| tool.name == request.name) else {
            return Err(unknown_tool(&request.name));
        };
        let arguments = request.arguments.unwrap_or_default();
        let result = match schema::check(tool, &arguments) {
            Ok(()) => self.0.call(tool.name, arguments).await,
            Err(error) => Err(error),
        };
        Ok(match result {
            Ok(value) => CallToolResult::structured(value),
            Err(error) => CallToolResult::structured_error(error.document()),
        }
        .into())
    }
}

/// Returns a tool as the protocol announces it.
fn announcement(tool: &ToolDescription) -> Tool {
    let schema: JsonObject = tool.schema();
    let annotations = ToolAnnotations::new()
        .read_only(tool.reads)
        .destructive(tool.destroys);
    Tool::new(tool.name, tool.about, schema).with_annotations(annotations)
}

/// Returns the error for a name that no tool has.
fn unknown_tool(name: &str) -> ErrorData {
    let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
    let error = ToolError::new(
        TOOL_NOT_FOUND,
        format!("there is no tool `{name}`; there are {}", names.join(", ")),
    );
    let data = json!({"code": error.code, "status": error.status()});
    ErrorData::new(ErrorCode::INVALID_PARAMS, error.message, Some(data))
}
