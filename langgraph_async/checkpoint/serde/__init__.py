"""Serializers, where LangGraph has them."""
