"""What tests share: tiny models, photos, servers, stand-ins for other programs."""
